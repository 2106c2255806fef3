"""`dpone schema`: the public contracts."""

from __future__ import annotations

from typing import Annotated

import typer

from dpone.cli.session import Format, FormatOption, plain_app, session_of

app = plain_app()


@app.command()
def schema(
    context: typer.Context,
    name: Annotated[
        str | None, typer.Argument(help="A contract, such as dpone.route.v1.", show_default=False)
    ] = None,
    chosen: FormatOption = Format.TEXT,
) -> None:
    """Print the JSON Schema of a public contract, or the names of all."""
    session = session_of(context, chosen)
    from dpone.contracts.published import NAMES, json_schema

    if name is None:
        listed = None
        if session.is_json:
            # People need no contract to read names, and would wait for its import.
            from dpone.contracts.run_report import SchemaList

            listed = SchemaList(names=NAMES)
        session.print(listed, "\n".join(NAMES))
        return
    if name not in NAMES:
        from dpone.contracts.errors_loading import SchemaUnknown

        raise SchemaUnknown(name=name)
    import json

    body = json_schema(name)
    session.print(body, json.dumps(body, indent=2))
