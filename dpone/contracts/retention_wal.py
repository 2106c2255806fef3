"""The recovery snapshot of retention, versions 1 and 2: which occurrence is being deleted.

Promise: closed, at most `SNAPSHOT_BYTES_MAX` long; a transaction's id follows from everything but
its phase; what a snapshot says of its transactions is derived from them. A transaction of version 1
belongs to no operation and authorises nothing. Source: ADR 0043.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal

import msgspec

from dpone.contracts.cache_layout import (
    ENTRIES_MAX,
    TRASH,
    Digest,
    Environment,
    Path,
    activation_path,
    check_revision,
    check_unique,
    deployment_path,
    durable,
    folder_name,
    holds,
    placed,
    read_durable,
    refuse,
    sealed_digest,
)
from dpone.contracts.codec import convert, plain, schema_of
from dpone.contracts.errors import ContractInvalid

WAL_SCHEMA = "dpone.deployment-cache-retention-recovery.v2"
LEGACY_WAL_SCHEMA = "dpone.deployment-cache-retention-recovery.v1"
TRANSACTION_SCHEMA = "dpone.deployment-cache-retention-transaction.v1"
SNAPSHOT_BYTES_MAX = 128 * 1024 * 1024

Phase = Literal[
    "prepared",
    "detached",
    "deletion_started",
    "deployment_deleted",
    "activation_deleted",
    "committed",
    "restored",
    "blocked",
]
PHASES = (
    "prepared",
    "detached",
    "deletion_started",
    "deployment_deleted",
    "activation_deleted",
    "committed",
)
ENDED = ("committed", "restored")

_Device = Annotated[int, msgspec.Meta(ge=0)]
_Inode = Annotated[int, msgspec.Meta(ge=1)]
_Ids = Annotated[
    tuple[Digest, ...],
    msgspec.Meta(max_length=ENTRIES_MAX, extra_json_schema={"uniqueItems": True}),
]
_Paths = Annotated[tuple[Path, ...], msgspec.Meta(max_length=ENTRIES_MAX)]
Status = Literal["recovering", "blocked", "recovered"]


class LegacyTransaction(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One deletion of version 1; its key is the deployment's id."""

    deployment_id: Digest
    environment: Environment
    phase: Phase
    original_path: Path
    detached_path: Path
    activation_path: Path
    expected_device: _Device
    expected_inode: _Inode


class Transaction(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One occurrence of a deployment that is being deleted; its key is the transaction's id."""

    deployment_id: Digest
    environment: Environment
    phase: Phase
    original_path: Path
    detached_path: Path
    activation_path: Path
    expected_device: _Device
    expected_inode: _Inode
    operation_id: Digest | None
    transaction_id: Digest

    def __post_init__(self) -> None:
        if self.transaction_id != transaction_id(self):
            refuse("transaction_id is not the one of the occurrence")

    @property
    def original(self) -> str:
        """Where the deployment lay, below the root."""
        return placed(self.original_path, deployment_path(self.environment, self.deployment_id))

    @property
    def activation(self) -> str:
        """Where its activation lay, below the root."""
        return placed(self.activation_path, activation_path(self.environment, self.deployment_id))

    @property
    def detached(self) -> str:
        """Where it lies in the trash, below the root."""
        leaf = self.detached_path.rpartition("/")[2]
        is_ours = leaf.startswith(folder_name(self.deployment_id) + ".")
        return placed(self.detached_path, f"{TRASH}/{leaf}") if is_ours else self.detached_path


class Recovery(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The snapshot, version 2."""

    schema: Literal["dpone.deployment-cache-retention-recovery.v2"]
    revision: Digest
    status: Status
    restored_deployment_ids: _Ids
    pending_deployment_ids: _Ids
    transactions: Annotated[dict[Digest, Transaction], msgspec.Meta(max_length=ENTRIES_MAX)]
    quarantined_paths: _Paths | msgspec.UnsetType = msgspec.UNSET

    def __post_init__(self) -> None:
        for key, transaction in self.transactions.items():
            if key != transaction.transaction_id:
                refuse("a transaction stands under another id")
        occurrences = tuple(
            (it.operation_id, it.deployment_id, it.expected_device, it.expected_inode)
            for it in self.transactions.values()
            if it.phase in ENDED
        )
        check_unique(occurrences, "ended occurrences")
        _check(self)


class LegacyRecovery(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The snapshot, version 1."""

    schema: Literal["dpone.deployment-cache-retention-recovery.v1"]
    revision: Digest
    status: Status
    restored_deployment_ids: _Ids
    pending_deployment_ids: _Ids
    transactions: Annotated[dict[Digest, LegacyTransaction], msgspec.Meta(max_length=ENTRIES_MAX)]
    quarantined_paths: _Paths | msgspec.UnsetType = msgspec.UNSET

    def __post_init__(self) -> None:
        for key, transaction in self.transactions.items():
            if key != transaction.deployment_id:
                refuse("a transaction stands under another deployment's id")
        _check(self)


def _check(found: Recovery | LegacyRecovery) -> None:
    transactions: tuple[Transaction | LegacyTransaction, ...] = tuple(found.transactions.values())
    if found.status != derived_status(transactions):
        refuse("status is not the one of the transactions")
    check_unique(found.restored_deployment_ids, "restored_deployment_ids")
    check_unique(found.pending_deployment_ids, "pending_deployment_ids")
    if set(found.restored_deployment_ids) != set(_ids(transactions, is_restored=True)):
        refuse("restored_deployment_ids are not those of the transactions")
    if set(found.pending_deployment_ids) != set(_ids(transactions, is_restored=False)):
        refuse("pending_deployment_ids are not those of the transactions")
    paths = found.quarantined_paths
    if not isinstance(paths, msgspec.UnsetType) and paths:
        check_unique(paths, "quarantined_paths")
        if found.status != "blocked":
            refuse("quarantined_paths stand in a snapshot that is not blocked")
        if not set(paths) <= _blocked_paths(transactions):
            refuse("quarantined_paths are not those of blocked transactions")
    check_revision(found)


_Any = Transaction | LegacyTransaction


def derived_status(transactions: Iterable[_Any]) -> Status:
    """What a snapshot says as a whole: any blocked one blocks, any open one is recovering."""
    phases = {transaction.phase for transaction in transactions}
    if "blocked" in phases:
        return "blocked"
    return "recovering" if phases - set(ENDED) else "recovered"


def _ids(transactions: Iterable[_Any], *, is_restored: bool) -> list[str]:
    return sorted(
        {
            it.deployment_id
            for it in transactions
            if (it.phase == "restored" if is_restored else it.phase not in ENDED)
        }
    )


def _blocked_paths(transactions: Iterable[_Any]) -> set[str]:
    return {
        path
        for it in transactions
        if it.phase == "blocked"
        for path in (it.original_path, it.detached_path, it.activation_path)
    }


# -- making ----------------------------------------------------------------------------------------


def transaction_id(transaction: _Any) -> str:
    """The identity of an occurrence; the phase is no part of it."""
    return sealed_digest(
        {
            "schema": TRANSACTION_SCHEMA,
            "deployment_id": transaction.deployment_id,
            "environment": transaction.environment,
            "original_path": transaction.original_path,
            "detached_path": transaction.detached_path,
            "activation_path": transaction.activation_path,
            "expected_device": transaction.expected_device,
            "expected_inode": transaction.expected_inode,
            "operation_id": getattr(transaction, "operation_id", None),
        }
    )


def prepared(
    *,
    deployment_id: str,
    environment: str,
    original_path: str,
    detached_path: str,
    activation_path: str,
    device: int,
    inode: int,
    operation_id: str,
) -> Transaction:
    """A transaction in its first phase. Paths are relative to the cache's root."""
    legacy = LegacyTransaction(
        deployment_id=deployment_id,
        environment=environment,
        phase="prepared",
        original_path=original_path,
        detached_path=detached_path,
        activation_path=activation_path,
        expected_device=device,
        expected_inode=inode,
    )
    return _bound(legacy, operation_id)


def _bound(legacy: LegacyTransaction, operation_id: str | None) -> Transaction:
    body = {**plain(legacy), "operation_id": operation_id}
    identity = {name: value for name, value in body.items() if name != "phase"}
    digest = sealed_digest({**identity, "schema": TRANSACTION_SCHEMA})
    return convert({**body, "transaction_id": digest}, Transaction)


def in_phase(transaction: Transaction, phase: str) -> Transaction:
    """The same occurrence in another phase."""
    return msgspec.structs.replace(transaction, phase=phase)


def snapshot_of(transactions: Mapping[str, Transaction]) -> Recovery:
    """The snapshot of transactions by id, with everything that follows from them."""
    values = tuple(transactions.values())
    body: dict[str, Any] = {
        "schema": WAL_SCHEMA,
        "status": derived_status(values),
        "restored_deployment_ids": _ids(values, is_restored=True),
        "pending_deployment_ids": _ids(values, is_restored=False),
        "transactions": plain(dict(transactions)),
    }
    blocked = sorted({it.detached_path for it in values if it.phase == "blocked"})
    if blocked:
        body["quarantined_paths"] = blocked
    return convert({**body, "revision": sealed_digest(body)}, Recovery)


def projected(legacy: LegacyRecovery) -> Recovery:
    """A snapshot of version 1 as version 2: every transaction belongs to no operation."""
    bound = (_bound(transaction, None) for transaction in legacy.transactions.values())
    return snapshot_of({transaction.transaction_id: transaction for transaction in bound})


# -- bytes -----------------------------------------------------------------------------------------


def encode_snapshot(snapshot: Recovery) -> bytes:
    """The bytes of the file. Raises `ContractInvalid` over the bound."""
    data = durable(snapshot)
    if len(data) > SNAPSHOT_BYTES_MAX:
        raise ContractInvalid(contract=WAL_SCHEMA, reason=f"over {SNAPSHOT_BYTES_MAX} bytes")
    return data


def decode_snapshot(data: bytes) -> Recovery | LegacyRecovery:
    """Read a snapshot of either version. Raises `ContractInvalid`."""
    if f'"{LEGACY_WAL_SCHEMA}"'.encode() in data:
        return read_durable(data, LegacyRecovery, bytes_max=SNAPSHOT_BYTES_MAX)
    return read_durable(data, Recovery, bytes_max=SNAPSHOT_BYTES_MAX)


def recovery_revision(
    transactions: Iterable[Transaction], *, outside: str | None = None
) -> str | None:
    """What a plan binds of the log: the live transactions that are not of operation `outside`.

    Phases are left out, so that recovery may go on between review and apply. None when there is no
    such transaction. The caller has taken out what a tombstone names.
    """
    ids = sorted(
        it.transaction_id for it in transactions if outside is None or it.operation_id != outside
    )
    if not ids:
        return None
    return sealed_digest({"schema": WAL_SCHEMA, "transaction_ids": ids})


def recovery_schema(name: str = WAL_SCHEMA) -> dict[str, Any]:
    """The JSON Schema of a snapshot, with the rules between fields."""
    kind = LegacyRecovery if name == LEGACY_WAL_SCHEMA else Recovery
    schema = schema_of(kind)
    body = schema["$defs"][kind.__name__]
    body["properties"]["schema"] = {"const": name}
    none = {"maxItems": 0}
    body["allOf"] = [
        {
            "if": holds(status={"const": status}),
            "then": holds(pending_deployment_ids=pending, quarantined_paths=none),
        }
        for status, pending in (("recovered", none), ("recovering", {"minItems": 1}))
    ]
    return schema
