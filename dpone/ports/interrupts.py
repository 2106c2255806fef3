"""A person's Ctrl-C, wherever a driver hides it.

DuckDB and SQLite run Python's signal handler in the middle of a statement, drop what it raised
and report an error of their own. Such an error must stop the run like any other interruption; a
target that called it a refused change would let the next attempt begin at once.
"""

from __future__ import annotations

_SQLITE_INTERRUPT = 9
_DUCKDB = "Query interrupted"


def stop_if_interrupted(error: BaseException) -> None:
    """Raise `KeyboardInterrupt` when `error`, or what it was raised from, is an interruption."""
    cause: BaseException | None = error
    seen: list[BaseException] = []
    # An error may be its own cause: `raise error from error`.
    while cause is not None and cause not in seen:
        if _is_interruption(cause):
            raise KeyboardInterrupt from error
        seen.append(cause)
        cause = cause.__cause__


def _is_interruption(error: BaseException) -> bool:
    # By name and number: nobody here may import a driver.
    if getattr(error, "sqlite_errorcode", 0) == _SQLITE_INTERRUPT:
        return True
    named = type(error).__name__ == "InterruptException"
    return named or (isinstance(error, RuntimeError) and str(error) == _DUCKDB)
