"""The transaction journal beside a file: its bytes, its phases and the names derived from it.

Promise: the record is closed, at most `JOURNAL_BYTES_MAX` long and holds names, digests and
identities only. The phase is one digit at a fixed offset, so that one write of one byte moves it
and no crash can tear it. `staging` alone leaves the desired identity open, at full width.
Source: ADR 0023, commands and calls; version 1 is what an earlier release wrote.
"""

from __future__ import annotations

import json
import re
from enum import IntEnum
from typing import Any

import msgspec

from dpone.contracts.authoring import NAME_BYTES_MAX, sha256_of
from dpone.contracts.codec import convert, parse, plain
from dpone.contracts.errors import ContractInvalid

SCHEMA = "dpone.confined-file-transaction"
JOURNAL_BYTES_MAX = 4096
NO_IDENTITY = f"{0:016x}.{0:016x}"
NO_DIGEST = "0" * 64
_PHASE = b'{"phase":'
PHASE_OFFSET = len(_PHASE)
_EARLIER_SIDE = re.compile(r"(?:migrate|cas|authoring)-[0-9a-f]{16,24}")
_HEX = frozenset("0123456789abcdef")


class Phase(IntEnum):
    """Where a transaction stands. `PREPARED` and `ROLLING_BACK` say nothing of the exchange."""

    STAGING = 0
    PREPARED = 1
    ROLLING_BACK = 2
    COMMITTED = 3
    KEPT = 4
    REMOVING = 5


class Transaction(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A journal of version 2. Names are leaves; digests have 64 hexadecimal digits.

    In phase REMOVING the expected file is the one to remove, and `exchange_name` its quarantine.
    """

    phase: int
    schema: str
    version: int
    target_name: str
    exchange_name: str
    recovery_name: str
    expected_sha256: str
    desired_sha256: str
    expected_identity: str
    desired_identity: str
    nonce: str

    def __post_init__(self) -> None:
        _header(self.schema, self.version, 2)
        Phase(self.phase)
        check_nonce(self.nonce)
        if self.exchange_name != side_name(self.nonce):
            raise ValueError("exchange_name is not the nonce's")
        if self.recovery_name != recovery_name(self.nonce):
            raise ValueError("recovery_name is not the nonce's")
        check_digest(self.expected_sha256)
        check_digest(self.desired_sha256)
        check_identity(self.expected_identity)
        check_identity(self.desired_identity)
        check_leaf(self.target_name)

    @property
    def scratch_names(self) -> tuple[str, str]:
        """Two names for the rehearsal of an exchange, cleared under this journal's lock."""
        return f".dpone-scratch-{self.nonce}-a", f".dpone-scratch-{self.nonce}-b"


class EarlierTransaction(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A journal of version 1, which knew bytes only."""

    phase: str
    schema: str
    version: int
    target_name: str
    exchange_name: str
    expected_sha256: str
    desired_sha256: str

    def __post_init__(self) -> None:
        _header(self.schema, self.version, 1)
        if self.phase != "prepared":
            raise ValueError("the phase of version 1 is always prepared")
        check_digest(self.expected_sha256)
        check_digest(self.desired_sha256)
        check_leaf(self.target_name)
        check_leaf(self.exchange_name)
        prefix = f".{self.target_name}.dpone-"
        rest = self.exchange_name.removeprefix(prefix)
        if not self.exchange_name.startswith(prefix) or not _EARLIER_SIDE.fullmatch(rest):
            raise ValueError("exchange_name is no side name of that release")


_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=True)


def encode(transaction: Transaction) -> bytes:
    """The bytes of a journal, the phase's digit first."""
    fields = plain(transaction)
    phase = int(fields.pop("phase"))
    rest = _ENCODER.encode(fields)
    return _PHASE + str(phase).encode() + b"," + rest[1:].encode() + b"\n"


def parse_journal(data: bytes) -> Transaction | EarlierTransaction:
    """Read a journal, whatever its leaf. Raises `ContractInvalid` for a torn or foreign one."""
    value: Any = parse(data, bytes_max=JOURNAL_BYTES_MAX)
    version = value.get("version") if isinstance(value, dict) else None
    return convert(value, EarlierTransaction) if version == 1 else convert(value, Transaction)


def decode(data: bytes, target_name: str) -> Transaction | EarlierTransaction:
    """Read a journal that lies beside `target_name`.

    Raises `ContractInvalid` for a torn or foreign one, and for one of another leaf.
    """
    found = parse_journal(data)
    if found.target_name != target_name:
        raise ContractInvalid(contract=SCHEMA, reason="it names another leaf")
    return found


def journal_name(leaf: str, name_bytes_max: int = NAME_BYTES_MAX) -> str:
    """The journal's name; the leaf's digest stands in where its draft's name would be too long."""
    name = f".{leaf}.dpone-transaction.json"
    if len(draft_name(name).encode()) <= name_bytes_max:
        return name
    return f".dpone-{sha256_of(leaf.encode())[:32]}.transaction.json"


_DRAFT = ".draft"


def draft_name(journal: str) -> str:
    """Where a journal is written first on a file system without nameless files."""
    return journal + _DRAFT


def side_name(nonce: str) -> str:
    """The other name of an exchange."""
    return f".dpone-side-{nonce}"


def recovery_name(nonce: str) -> str:
    """Where bytes are kept that nobody may drop."""
    return f".dpone-recovery-{nonce}"


def _header(schema: str, version: int, wanted: int) -> None:
    if schema != SCHEMA:
        raise ValueError("the schema is another")
    if version != wanted:
        raise ValueError("the version is unknown")


def check_leaf(name: str) -> None:
    """Raise `ValueError` for what is no name of a file in one folder."""
    if not name or name in (".", "..") or "/" in name or "\0" in name:
        raise ValueError("a name is no leaf")
    if len(name.encode()) > NAME_BYTES_MAX:
        raise ValueError("a name is too long")


def check_nonce(nonce: str) -> None:
    """Raise `ValueError` for what is no nonce: side and recovery names are made of it."""
    if not _is_hex(nonce, 32):
        raise ValueError("the nonce has not 32 hexadecimal digits")


def check_digest(digest: str) -> None:
    """Raise `ValueError` for what is no SHA-256."""
    if not _is_hex(digest, 64):
        raise ValueError("a digest has not 64 hexadecimal digits")


def check_identity(identity: str) -> None:
    """Raise `ValueError` for what is no inode with a birth time."""
    if len(identity) != len(NO_IDENTITY) or not _is_hex(identity.replace(".", "", 1), 32):
        raise ValueError("an identity has not its form")


def _is_hex(text: str, length: int) -> bool:
    return len(text) == length and set(text) <= _HEX
