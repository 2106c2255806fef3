"""What protects a deployment: being current, being the way back, being named, being in evidence.

Promise: an evidence file counts as a whole or not at all; a malformed id rejects it. Source:
ADR 0043.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from dpone.contracts.cache_layout import is_digest
from dpone.contracts.errors_retention import (
    DeploymentIdInvalid,
    EvidenceIdNotFound,
    EvidenceUnreadable,
)
from dpone.ports.files import FilesError
from dpone.retention.authority import Current
from dpone.retention.cache import Document

EVIDENCE_BYTES_MAX = 8 * 1024 * 1024
EVIDENCE_DEPTH_MAX = 64
EVIDENCE_NODES_MAX = 100_000
_ID_KEY = re.compile(r"(?:\w+_)?deployment_ids?")


@dataclass(frozen=True, slots=True)
class Protection:
    """Who is protected, and by what: `why` has a word for people for each id."""

    current_id: str | None
    why: dict[str, str]

    @property
    def ids(self) -> tuple[str, ...]:
        """All protected ids, sorted; the current one is not among them."""
        return tuple(sorted(self.why))

    def covers(self, deployment_id: str) -> bool:
        """Whether a deployment may not be deleted."""
        return deployment_id == self.current_id or deployment_id in self.why


def protection_of(
    current: Current | None, given: Iterable[str], evidence: Iterable[Document]
) -> Protection:
    """Collect what is protected.

    Raises `DeploymentIdInvalid`, `EvidenceIdNotFound`, `EvidenceUnreadable`.
    """
    why: dict[str, str] = {}
    for deployment_id in given:
        if not is_digest(deployment_id):
            raise DeploymentIdInvalid(deployment_id=deployment_id[:80], place="")
        why.setdefault(deployment_id, "named")
    for document in evidence:
        for deployment_id in evidence_ids(document):
            why.setdefault(deployment_id, f"evidence {document.leaf}")
    if current is None:
        return Protection(None, why)
    if current.previous_id:
        why[current.previous_id] = "rollback target"
    why[current.deployment_id] = "current"
    return Protection(current.deployment_id, why)


def evidence_ids(document: Document) -> tuple[str, ...]:
    """Every deployment id anywhere in an evidence file, sorted."""
    file = document.leaf
    try:
        data = document.read(EVIDENCE_BYTES_MAX)
    except FilesError as error:
        raise EvidenceUnreadable(file=file, reason=error.reason) from error
    if data is None:
        raise EvidenceUnreadable(file=file, reason="there is no such file")
    found: set[str] = set()
    for value in _named(_value(data, file), file):
        if not is_digest(value):
            raise DeploymentIdInvalid(deployment_id=str(value)[:80], place=f" in {file}")
        found.add(value)
    if not found:
        raise EvidenceIdNotFound(file=file)
    return tuple(sorted(found))


def _value(data: bytes, file: str) -> Any:
    try:
        return json.loads(data.decode("utf-8"), object_pairs_hook=_pairs)
    except (ValueError, RecursionError) as error:
        # A decoder's message may quote the file; only its kind is passed on.
        reason = str(error) if isinstance(error, _Duplicate) else "it is no JSON"
        raise EvidenceUnreadable(file=file, reason=reason) from None


class _Duplicate(ValueError):
    pass


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise _Duplicate("an object has a key twice")
    return found


def _named(value: Any, file: str) -> Iterator[Any]:
    """The values of all fields that name deployments; a null names none."""
    pending: list[tuple[Any, int]] = [(value, 1)]
    count = 0
    while pending:
        node, depth = pending.pop()
        count += 1
        if count > EVIDENCE_NODES_MAX or depth > EVIDENCE_DEPTH_MAX:
            reason = f"more than {EVIDENCE_NODES_MAX} values or {EVIDENCE_DEPTH_MAX} levels"
            raise EvidenceUnreadable(file=file, reason=reason)
        if isinstance(node, dict):
            for key, inner in node.items():
                if _ID_KEY.fullmatch(key):
                    yield from _ids(inner)
                else:
                    pending.append((inner, depth + 1))
        elif isinstance(node, list):
            pending += [(inner, depth + 1) for inner in node]


def _ids(value: Any) -> Iterator[Any]:
    if isinstance(value, list):
        yield from value
    elif value is not None:
        yield value
