"""The pointer to what is current, and the audit of how it became that.

The contract is open: whoever promotes may add fields, and whoever rewrites carries them on.
Promise: what is required is there and has its form. Source: ADR 0043.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from dpone.contracts.cache_layout import Digest, Environment, Moment, Uuid4, moment_of
from dpone.contracts.codec import convert, parse, plain, schema_of
from dpone.contracts.errors import ContractInvalid

POINTER_SCHEMA = "dpone.current-pointer.v1"
POINTER_BYTES_MAX = 64 * 1024
AUDIT_BYTES_MAX = 64 * 1024 * 1024


class CurrentPointer(msgspec.Struct, frozen=True, kw_only=True):
    """What is current; `carried` is not part of the file, but holds the fields we do not know."""

    schema: Literal["dpone.current-pointer.v1"]
    environment: Environment
    deployment_id: Digest
    release_id: Digest
    promoted_by: Annotated[str, msgspec.Meta(min_length=1, max_length=512)]
    promoted_at: Moment
    activation_id: Uuid4 | msgspec.UnsetType = msgspec.UNSET
    previous_deployment_id: Digest | msgspec.UnsetType | None = msgspec.UNSET
    current_path: str | msgspec.UnsetType = msgspec.UNSET
    source_commit: str | msgspec.UnsetType | None = msgspec.UNSET
    attestation_ref: Any | msgspec.UnsetType = msgspec.UNSET
    workspace_authority_connection_ref: str | msgspec.UnsetType | None = msgspec.UNSET

    def __post_init__(self) -> None:
        moment_of(self.promoted_at)


class Pointed(msgspec.Struct, frozen=True, kw_only=True):
    """A pointer with all fields of its file, known and unknown."""

    pointer: CurrentPointer
    fields: dict[str, Any]

    @property
    def previous(self) -> str | None:
        """The deployment that a rollback would make current."""
        return self.pointer.previous_deployment_id or None


def decode_pointer(data: bytes) -> Pointed:
    """Read a pointer or one line of the audit. Raises `ContractInvalid`."""
    value = parse(data, bytes_max=POINTER_BYTES_MAX)
    pointer = convert(value, CurrentPointer)
    return Pointed(pointer=pointer, fields=value)


def pointed(pointer: CurrentPointer, carried: dict[str, Any] | None = None) -> Pointed:
    """A pointer to write; unknown fields of the earlier one are carried on."""
    return Pointed(pointer=pointer, fields={**(carried or {}), **plain(pointer)})


def last_event(audit: bytes) -> Pointed:
    """The last line of an audit. Raises `ContractInvalid` when it is empty or torn."""
    if not audit.endswith(b"\n"):
        raise ContractInvalid(contract=POINTER_SCHEMA, reason="the audit's last line is torn")
    lines = audit[-POINTER_BYTES_MAX - 1 : -1].split(b"\n")
    if not lines[-1].strip():
        raise ContractInvalid(contract=POINTER_SCHEMA, reason="the audit's last line is empty")
    return decode_pointer(lines[-1])


def pointer_schema(name: str = POINTER_SCHEMA) -> dict[str, Any]:
    """The JSON Schema of a pointer as we write it; readers carry unknown fields."""
    schema = schema_of(CurrentPointer)
    body = schema["$defs"]["CurrentPointer"]
    body["additionalProperties"] = False
    body["properties"]["schema"] = {"const": name}
    return schema
