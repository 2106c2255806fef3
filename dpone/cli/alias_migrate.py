"""`dpone migrate authoring`: an older spelling of `dpone authoring migrate`."""

from __future__ import annotations

from dpone.cli import authoring
from dpone.cli.session import plain_app

app = plain_app("An older name of dpone authoring migrate.")
app.command("authoring")(authoring.migrate)


@app.callback()
def _group() -> None:
    """Commands that migrate."""
