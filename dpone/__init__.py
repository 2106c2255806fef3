"""Changes that are safe to retry, and can prove it.

`commit` makes a target hold a change once, however often an orchestrator kills and retries it.
`replace_file_if_digest` changes a file that people also edit without losing a byte of theirs.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dpone.api import acommit, commit, open_journal, open_target, reconcile
    from dpone.api_authoring import (
        owned_file,
        recover_file_transaction,
        remove_file_if_owned,
        replace_file_if_digest,
    )
    from dpone.contracts.authoring import OwnedFile
    from dpone.contracts.errors import DponeError
    from dpone.contracts.identity import Operation
    from dpone.contracts.outcome import How, Outcome
    from dpone.fencing.obligations import Obligation

_HOMES = {
    "acommit": "dpone.api",
    "commit": "dpone.api",
    "open_journal": "dpone.api",
    "open_target": "dpone.api",
    "reconcile": "dpone.api",
    "DponeError": "dpone.contracts.errors",
    "Operation": "dpone.contracts.identity",
    "How": "dpone.contracts.outcome",
    "Outcome": "dpone.contracts.outcome",
    "Obligation": "dpone.fencing.obligations",
    "OwnedFile": "dpone.contracts.authoring",
    "owned_file": "dpone.api_authoring",
    "recover_file_transaction": "dpone.api_authoring",
    "remove_file_if_owned": "dpone.api_authoring",
    "replace_file_if_digest": "dpone.api_authoring",
}

__all__ = [
    "DponeError",
    "How",
    "Obligation",
    "Operation",
    "Outcome",
    "OwnedFile",
    "acommit",
    "commit",
    "open_journal",
    "open_target",
    "owned_file",
    "reconcile",
    "recover_file_transaction",
    "remove_file_if_owned",
    "replace_file_if_digest",
]


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used: `import dpone` stays cheap."""
    if name == "__version__":
        return importlib.import_module("importlib.metadata").version("dpone")
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'dpone' has no attribute {name!r}")
    value = getattr(importlib.import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
