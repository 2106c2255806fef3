"""A plugin for pytest: the library that the tests use is the one that was installed."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest


def strangers(prefix: Path) -> list[str]:
    """The modules of the library that do not come from the packages of an environment."""
    found = []
    for name, module in sorted(sys.modules.items()):
        origin = getattr(module, "__file__", None)
        if name.partition(".")[0] != "dpone" or origin is None:
            continue
        path = Path(origin).resolve()
        if not (path.is_relative_to(prefix.resolve()) and "site-packages" in path.parts):
            found.append(f"{name} from {path}")
    return found


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail the run when a module came from elsewhere, or when the library was never imported."""
    import dpone

    wrong = strangers(Path(sys.prefix))
    if wrong or dpone.__file__ is None:
        raise pytest.UsageError(f"not the installed library: {'; '.join(wrong[:3])}")
