"""The entry point: listens for Ctrl-C before anything large is imported, and exits with a code.

Promise: no traceback is shown to anybody who did not ask for one, whenever the signal comes.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, NoReturn

from dpone.cli.interrupt import Interrupts, interrupts

if TYPE_CHECKING:
    from dpone.ports.probe import Probe

_STANDARD = 2


def main(argv: Sequence[str] | None = None, *, probe: Probe | None = None) -> NoReturn:
    """Run the command line and exit with its code.

    `probe` observes the effects of this call; only a harness passes another one in.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    _stand_in()
    with interrupts() as signals:
        try:
            from dpone.cli.commands import run

            code = run(arguments, signals, probe)
        except (Exception, KeyboardInterrupt) as error:
            if not signals.came and not isinstance(error, KeyboardInterrupt):
                raise
            code = _between(arguments, signals)
    sys.exit(code)


def _stand_in() -> None:
    """Have the descriptors 0 to 2 lead somewhere, so that no file of a load is taken for one."""
    while (number := os.open(os.devnull, os.O_RDWR)) <= _STANDARD:
        continue
    os.close(number)


def _between(arguments: Sequence[str], signals: Interrupts) -> int:
    """The signal came before a command could begin, or while it was being left."""
    with signals.held():
        from dpone.cli.session import Session, format_of
        from dpone.contracts.errors_run import EXIT_INTERRUPTED, Interrupted

        if signals.told_it:
            return EXIT_INTERRUPTED
        session = Session(signals=signals)
        session.format = format_of(arguments)
        return session.ended(session.fail(Interrupted()))
