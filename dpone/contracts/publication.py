"""Publishing several files as one: the plan, the receipt that outlives the process, the outcome.

Promise: a plan holds everything that apply will write and what it saw before; its digest names it.
The receipt is closed and holds paths, identities and digests only. Source: ADR 0023, multi-file
authoring apply.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from enum import StrEnum
from typing import Any, Self

import msgspec

from dpone.contracts.authoring import NAME_BYTES_MAX, OwnedFile, Status, sha256_of
from dpone.contracts.canonical import digest
from dpone.contracts.codec import convert, parse, plain
from dpone.contracts.errors import ContractInvalid
from dpone.contracts.transaction import (
    NO_DIGEST,
    NO_IDENTITY,
    check_digest,
    check_identity,
    check_leaf,
    check_nonce,
    draft_name,
    side_name,
)

RECEIPT_SCHEMA = "dpone.authoring-publish.v1"
RECEIPT_BYTES_MAX = 256 * 1024
FILES_MAX = 256
PATH_CHARS_MAX = 4096
_PLAN_PREFIX = "sha256:"
_DEVICE_MAX = 2**64 - 1


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """One file of a plan: `before` is its bytes as planned, None when it was absent.

    `shared`: it is valid by itself and other publications may stand on it, so that a new one is
    never taken back.
    """

    path: str
    after: bytes
    before: bytes | None = None
    shared: bool = False

    @property
    def is_new(self) -> bool:
        """Whether the file is to be created."""
        return self.before is None

    def for_all(self) -> Change:
        """The same change, of a file that others may stand on."""
        return Change(path=self.path, after=self.after, before=self.before, shared=True)

    @property
    def after_sha256(self) -> str:
        """The digest of the bytes to write."""
        return sha256_of(self.after)

    @property
    def before_sha256(self) -> str | None:
        """The digest of the bytes that were seen; None when the file was absent."""
        return None if self.before is None else sha256_of(self.before)


class Publication(msgspec.Struct, frozen=True, kw_only=True):
    """A plan: `fragments` and `edits` come before `root`, whose change puts all of it in force."""

    root: Change
    fragments: tuple[Change, ...] = ()
    edits: tuple[Change, ...] = ()

    @property
    def changes(self) -> tuple[Change, ...]:
        """Every file in the order of writing."""
        return (*self.fragments, *self.edits, self.root)

    @property
    def plan_id(self) -> str:
        """The digest of the plan."""
        return digest([[c.path, c.before_sha256 or "", c.after_sha256] for c in self.changes])


class Entry(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A new file of a receipt. `side` names it until it is complete, where names are needed.

    `shared`: it stays when its publication is undone, for others may stand on it.
    """

    path: str
    sha256: str
    size: int
    device: int
    identity: str
    side: str
    shared: bool = False

    def __post_init__(self) -> None:
        for part in self.path.split("/"):
            check_leaf(part)
        if len(self.path) > PATH_CHARS_MAX or any(ord(letter) < 32 for letter in self.path):
            raise ValueError("a path names no file of a project")
        check_digest(self.sha256)
        check_identity(self.identity)
        check_leaf(self.side)
        if self.size < 0 or self.device < 0:
            raise ValueError("a size or a device is below zero")

    def owned(self) -> OwnedFile:
        """The receipt of this single file."""
        return OwnedFile(
            path=self.path,
            device=self.device,
            identity=self.identity,
            size=self.size,
            sha256=self.sha256,
        )


class Receipt(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What is durable beside the root before a new file gets its name.

    `phase` 0: new files may be incomplete under their side names. 1: they are complete.
    `before_sha256` is empty when the root was to be created.
    """

    phase: int
    schema: str
    root_name: str
    plan_id: str
    nonce: str
    before_sha256: str
    after_sha256: str
    entries: tuple[Entry, ...]

    def __post_init__(self) -> None:
        if self.schema != RECEIPT_SCHEMA or self.phase not in (0, 1):
            raise ValueError("the schema or the phase is unknown")
        check_leaf(self.root_name)
        check_nonce(self.nonce)
        if not self.plan_id.startswith(_PLAN_PREFIX):
            raise ValueError("a plan has not its form")
        check_digest(self.plan_id.removeprefix(_PLAN_PREFIX))
        check_digest(self.after_sha256)
        if self.before_sha256:
            check_digest(self.before_sha256)
        for number, entry in enumerate(self.entries):
            if entry.side != f"{side_name(self.nonce)}-{number}":
                raise ValueError("a side name is not the nonce's")
        if len({entry.path for entry in self.entries}) != len(self.entries):
            raise ValueError("two entries name one file")
        if len(self.entries) > FILES_MAX:
            raise ValueError("it names too many files")


class Conclusion(StrEnum):
    """What a dead run's new files come to."""

    IN_FORCE = "in_force"
    """The root stands on them."""
    WITHDRAW = "withdraw"
    """The root is as it was before, and does not name them."""
    LEAVE = "leave"
    """Somebody changed the root since: whether it names them is his to say."""


def conclude(shown: str | None, before: str, after: str) -> Conclusion:
    """Decide by the root's digest alone. Empty: absent. None: what it shows cannot be read."""
    if shown == after:
        return Conclusion.IN_FORCE
    return Conclusion.WITHDRAW if shown == before else Conclusion.LEAVE


_PHASE = b'{"phase":'
RECEIPT_PHASE_OFFSET = len(_PHASE)


def encode_receipt(receipt: Receipt) -> bytes:
    """The bytes of a receipt, the phase's digit first."""
    fields = plain(receipt)
    phase = int(fields.pop("phase"))
    rest = json.dumps(fields, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return _PHASE + str(phase).encode() + b"," + rest[1:].encode() + b"\n"


def receipt_bytes(plan: Publication) -> int:
    """How long the receipt of a plan can become, if every file that may be new is new.

    Numbers that are known only later are counted with all the digits that they may have.
    """
    news = [change for change in plan.changes if change.is_new or change.before == change.after]
    entries = [
        {
            "path": change.path,
            "sha256": NO_DIGEST,
            "size": len(change.after),
            "device": _DEVICE_MAX,
            "identity": NO_IDENTITY,
            "side": f"{side_name(NO_DIGEST[:32])}-{number}",
            "shared": False,
        }
        for number, change in enumerate(news)
    ]
    header = {
        "phase": 0,
        "schema": RECEIPT_SCHEMA,
        "root_name": plan.root.path.rpartition("/")[2],
        "plan_id": _PLAN_PREFIX + NO_DIGEST,
        "nonce": NO_DIGEST[:32],
        "before_sha256": NO_DIGEST,
        "after_sha256": NO_DIGEST,
    }
    text = json.dumps({**header, "entries": entries}, separators=(",", ":"), ensure_ascii=True)
    return len(text) + len("\n")


def parse_receipt(data: bytes) -> Receipt:
    """Read a receipt, whatever its root. Raises `ContractInvalid`."""
    value: Any = parse(data, bytes_max=RECEIPT_BYTES_MAX)
    return convert(value, Receipt)


def decode_receipt(data: bytes, root_name: str) -> Receipt:
    """Read a receipt that lies beside `root_name`. Raises `ContractInvalid`."""
    found = parse_receipt(data)
    if found.root_name != root_name:
        raise ContractInvalid(contract="Receipt", reason="it names another root")
    return found


def receipt_name(leaf: str, name_bytes_max: int = NAME_BYTES_MAX) -> str:
    """The receipt's name; the leaf's digest stands in where its draft's name would be too long."""
    name = f".{leaf}.dpone-publish.json"
    if len(draft_name(name).encode()) <= name_bytes_max:
        return name
    return f".dpone-{sha256_of(leaf.encode())[:32]}.publish.json"


class FileOutcome(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What became of one file.

    `action`: create, update, no_op, rolled_back, preserved (somebody else's now, or for others to
    stand on), not_applied, recovery_required or failed. `recovery_name`: project-relative path of
    kept bytes.
    """

    path: str
    action: str
    reason: str = ""
    recovery_name: str | None = None

    @property
    def stays(self) -> bool:
        """Whether the file was left under its name, as somebody else's or for others."""
        return self.action == "preserved"


class Concluded(tuple[FileOutcome, ...]):
    """What a dead run's publication came to: the files that stay or were kept, and `decided`."""

    decided: Conclusion

    def __new__(cls, files: Iterable[FileOutcome], decided: Conclusion) -> Self:
        """As a tuple, with the decision beside it."""
        made = super().__new__(cls, files)
        made.decided = decided
        return made


class PublishOutcome(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What publishing did. NONE: everything was identical already.

    `issues` are the compensations and clean-ups that failed, as stable words with their paths.
    """

    status: Status
    plan_id: str
    files: tuple[FileOutcome, ...]
    issues: tuple[FileOutcome, ...] = ()
    cleanup_required: bool = False
    reason: str = ""

    @property
    def counters(self) -> dict[str, int]:
        """The three counters of receipts and metrics."""
        return {
            "committed_cleanup_required": int(
                self.status is Status.COMMITTED and self.cleanup_required
            ),
            "rolled_back": int(self.status is Status.ROLLED_BACK),
            "recovery_required": int(self.status is Status.RECOVERY_REQUIRED),
        }

    @property
    def recovery_names(self) -> tuple[str, ...]:
        """Every kept name, project-relative."""
        both = (*self.files, *self.issues)
        return tuple(f.recovery_name for f in both if f.recovery_name)
