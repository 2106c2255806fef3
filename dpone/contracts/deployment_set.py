"""A deployment, its index and its release as they lie in a cache, and what materializing them says.

The three files are open: others add fields. Promise: what is read here is what identifies them; an
id is the canonical digest of its file without the id. Source: ADR 0043.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec

from dpone.contracts.cache_layout import (
    DEPLOYMENT_FILE,
    INDEX_FILE,
    RELEASE_FILE,
    SUCCESS,
    Digest,
    Environment,
    bytes_digest,
    durable,
    release_path,
)
from dpone.contracts.canonical import digest
from dpone.contracts.codec import convert, parse
from dpone.contracts.errors import ContractInvalid, NotCanonical

DEPLOYMENT_SCHEMA = "dpone.deployment-set.v1"
INDEX_SCHEMA = "dpone.airflow-deployment-index.v1"
RELEASE_SCHEMA = "dpone.release-set.v1"
SET_BYTES_MAX = 8 * 1024 * 1024
SPEC_BYTES_MAX = 8 * 1024 * 1024
SPECS_MAX = 5000
_REFS = (
    "binding_set_ref",
    "connection_registry_ref",
    "credential_runtime_ref",
    "runtime_image_digest",
    "airflow_bundle_ref",
)
_Name = Annotated[str, msgspec.Meta(min_length=1, max_length=250)]


class DeploymentSet(msgspec.Struct, frozen=True, kw_only=True):
    """`deployment.json`."""

    schema: Literal["dpone.deployment-set.v1"]
    deployment_id: Digest
    environment: Environment
    release_ref: Digest


class IndexedDag(msgspec.Struct, frozen=True, kw_only=True):
    """One DAG of an index: where its specification lies, and what its bytes are."""

    id: _Name
    artifact_ref: Annotated[str, msgspec.Meta(min_length=1, max_length=4096)]
    sha256: Digest
    bytes: Annotated[int, msgspec.Meta(ge=0)] | msgspec.UnsetType = msgspec.UNSET


class DeploymentIndex(msgspec.Struct, frozen=True, kw_only=True):
    """`airflow-index.json`."""

    schema: Literal["dpone.airflow-deployment-index.v1"]
    release_id: Digest
    deployment_id: Digest
    dag_specs: Annotated[tuple[IndexedDag, ...], msgspec.Meta(max_length=SPECS_MAX)]


class ReleasedDag(msgspec.Struct, frozen=True, kw_only=True):
    """One DAG of a release; `path` is relative to the release."""

    id: _Name
    path: Annotated[str, msgspec.Meta(min_length=1, max_length=4096)]
    sha256: Digest


class Artifacts(msgspec.Struct, frozen=True, kw_only=True):
    """What a release consists of."""

    dag_specs: Annotated[tuple[ReleasedDag, ...], msgspec.Meta(max_length=SPECS_MAX)]


class ReleaseSet(msgspec.Struct, frozen=True, kw_only=True):
    """`release-set.json`."""

    schema: Literal["dpone.release-set.v1"]
    release_id: Digest
    artifacts: Artifacts


class MaterializeReport(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What `dpone airflow cache-materialize` wrote.

    `written` and `activated` are False when it was there before. `ack_file` is the loader's
    acknowledgement that was written for trying it out.
    """

    environment: str
    deployment_id: str
    release_id: str
    written: bool
    activated: bool
    current_deployment_id: str | None
    ack_file: str = ""
    schema: str = "dpone.airflow-cache-materialize.v1"


def read_set(data: bytes, kind: type[Any], id_field: str) -> Any:
    """Read one of the three files and check its id. Raises `ContractInvalid`."""
    value = _fields(data)
    found = convert(value, kind)
    try:
        body = {name: item for name, item in value.items() if name != id_field}
        if digest(body) != value[id_field]:
            raise ContractInvalid(contract=kind.__name__, reason=f"{id_field} is not its digest")
    except NotCanonical as error:
        raise ContractInvalid(contract=kind.__name__, reason=str(error)) from None
    return found


def decode_deployment(data: bytes) -> DeploymentSet:
    """Read `deployment.json`. Raises `ContractInvalid` also when the id is not its digest."""
    found: DeploymentSet = read_set(data, DeploymentSet, "deployment_id")
    return found


def decode_release(data: bytes) -> ReleaseSet:
    """Read `release-set.json`. Raises `ContractInvalid` also when the id is not its digest."""
    found: ReleaseSet = read_set(data, ReleaseSet, "release_id")
    return found


def decode_index(data: bytes) -> DeploymentIndex:
    """Read `airflow-index.json`. Raises `ContractInvalid`."""
    return convert(_fields(data), DeploymentIndex)


def _fields(data: bytes) -> Any:
    return parse(data, bytes_max=SET_BYTES_MAX)


def release_files(dag_ids: tuple[str, ...]) -> tuple[str, dict[str, bytes]]:
    """A release of these DAGs: its id, and its files by their paths."""
    files = {_spec_path(dag_id): durable({"dag_id": dag_id}) for dag_id in dag_ids}
    specs = [
        {"id": it, "path": _spec_path(it), "sha256": bytes_digest(files[_spec_path(it)])}
        for it in dag_ids
    ]
    body = {
        "schema": RELEASE_SCHEMA,
        "artifacts": {"dag_specs": specs, "workload_packs": [], "canonical_schemas": []},
    }
    release_id = digest(body)
    files[RELEASE_FILE] = durable({**body, "release_id": release_id})
    return release_id, files


def _spec_path(dag_id: str) -> str:
    return f"dags/{dag_id}.dag-spec.json"


def deployment_files(
    environment: str, release_id: str, released: Mapping[str, bytes], fixture: str, count: int
) -> tuple[str, dict[str, bytes]]:
    """A preview of a release: its id, and its files by their paths, with `count` nested ones."""
    shared: dict[str, Any] = {
        **dict.fromkeys(_REFS),
        "runtime_artifact_delivery": {"mode": "local_preview"},
    }
    body = {
        "schema": DEPLOYMENT_SCHEMA,
        "deployment_type": "preview",
        "runnable": False,
        "environment": environment,
        "release_ref": release_id,
        "fixture_identity": fixture,
        "fixture_files": count,
        **shared,
    }
    deployment_id = digest(body)
    specs = [
        {
            "id": path.removeprefix("dags/").removesuffix(".dag-spec.json"),
            "artifact_ref": f"cache://{release_path(release_id)}/{path}",
            "sha256": bytes_digest(data),
            "bytes": len(data),
        }
        for path, data in released.items()
        if path != RELEASE_FILE
    ]
    index = {
        "schema": INDEX_SCHEMA,
        "release_id": release_id,
        "deployment_id": deployment_id,
        "dag_specs": specs,
        "workload_packs": [],
        **shared,
    }
    files = {
        f"files/{number % 16:02d}/{number:06d}.txt": f"{fixture} {number}\n".encode()
        for number in range(count)
    }
    files[DEPLOYMENT_FILE] = durable({**body, "deployment_id": deployment_id})
    files[INDEX_FILE] = durable(index)
    files[SUCCESS] = b"ok\n"
    return deployment_id, files


_SAID = ("release_id", "deployment_id", "airflow_index_sha256", "activation_id")


def preview_ack(said: Mapping[str, Any], now: str) -> dict[str, Any]:
    """What a loader would say when it had loaded all of a preview."""
    return {
        "schema": "dpone.airflow_loader_ack.v2",
        **{name: said[name] for name in _SAID},
        "loaded_dag_ids": said["dag_ids"],
        "skipped_dag_ids": [],
        "error_codes": [],
        "fatal": False,
        "acknowledged_at": now,
    }


def preview_checkpoint(said: Mapping[str, Any]) -> dict[str, Any]:
    """What a reconcile would write when a preview was wanted."""
    preview = digest("local preview")
    return {
        "schema": "dpone.airflow-desired-state-checkpoint.v1",
        "environment": said["environment"],
        **{name: said[name] for name in _SAID},
        "occurrence_id": said["activation_id"],
        "expected_dag_ids": said["dag_ids"],
        "observed_revision": "preview",
        "desired_state_sha256": digest(said["deployment_id"]),
        "registry_scope_id": preview,
        "runtime_image_digest": preview,
        "source_project": "local/preview",
        "source_ref": "main",
        "source_git_sha": "0" * 40,
    }
