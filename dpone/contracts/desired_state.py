"""The checkpoint of the desired state: what the last reconcile put in force.

Promise: closed, at most `CHECKPOINT_BYTES_MAX` long. Source: ADR 0043.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from dpone.contracts.cache_layout import END, Digest, check_unique
from dpone.contracts.codec import decode

CHECKPOINT_BYTES_MAX = 96 * 1024
DAGS_MAX = 5000
DAG_CHARS_MAX = 250

_UUID = "^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}" + END
Uuid = Annotated[str, msgspec.Meta(pattern=_UUID, max_length=36)]
ExpectedDag = Annotated[
    str,
    msgspec.Meta(
        pattern="^[A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?" + END,
        min_length=1,
        max_length=DAG_CHARS_MAX,
    ),
]


class DesiredStateCheckpoint(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What is wanted, where it was read, and what it made current."""

    schema: Literal["dpone.airflow-desired-state-checkpoint.v1"]
    environment: Annotated[
        str,
        msgspec.Meta(pattern="^[a-z0-9]([a-z0-9._-]*[a-z0-9])?" + END, min_length=1, max_length=64),
    ]
    observed_revision: Annotated[str, msgspec.Meta(min_length=1, max_length=1024)]
    desired_state_sha256: Digest
    registry_scope_id: Digest
    release_id: Digest
    deployment_id: Digest
    airflow_index_sha256: Digest
    runtime_image_digest: Digest
    source_project: Annotated[
        str, msgspec.Meta(pattern="^[^/\\s]+(/[^/\\s]+)+" + END, min_length=3, max_length=512)
    ]
    source_ref: Annotated[str, msgspec.Meta(min_length=1, max_length=256)]
    source_git_sha: Annotated[
        str, msgspec.Meta(pattern="^([0-9a-f]{40}|[0-9a-f]{64})" + END, max_length=64)
    ]
    occurrence_id: Uuid
    activation_id: Uuid
    expected_dag_ids: Annotated[
        tuple[ExpectedDag, ...],
        msgspec.Meta(min_length=1, max_length=DAGS_MAX, extra_json_schema={"uniqueItems": True}),
    ]

    def __post_init__(self) -> None:
        check_unique(self.expected_dag_ids, "expected_dag_ids")


def decode_checkpoint(data: bytes) -> DesiredStateCheckpoint:
    """Read a checkpoint. Raises `ContractInvalid`."""
    return decode(data, DesiredStateCheckpoint, bytes_max=CHECKPOINT_BYTES_MAX)
