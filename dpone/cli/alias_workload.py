"""`dpone workload init`: an older spelling of `dpone init workload`."""

from __future__ import annotations

from dpone.cli import init
from dpone.cli.session import plain_app

app = plain_app("An older name of dpone init workload.")
app.command("init")(init.workload)


@app.callback()
def _group() -> None:
    """Commands on workloads."""
