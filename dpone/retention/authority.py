"""What must be true before anything is deleted: pointer, link, audit, loader, checkpoint, history.

Promise: an `Authority` exists only when all of them agree, and its digest changes when any of them
does; a newer time in the same acknowledgement changes nothing. Not promised: that they agree a
moment later; whoever deletes reads again under the promotion lock. Source: ADR 0043.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from dpone.contracts import cache_layout as layout
from dpone.contracts.activation_history import (
    HISTORY_BYTES_MAX,
    ActivationHistory,
    decode_history,
    prospective_history,
)
from dpone.contracts.canonical import digest
from dpone.contracts.codec import plain
from dpone.contracts.current_pointer import (
    AUDIT_BYTES_MAX,
    POINTER_BYTES_MAX,
    Pointed,
    decode_pointer,
    last_event,
)
from dpone.contracts.deployment_set import (
    SET_BYTES_MAX,
    SPEC_BYTES_MAX,
    DeploymentIndex,
    decode_deployment,
    decode_index,
    decode_release,
)
from dpone.contracts.desired_state import (
    CHECKPOINT_BYTES_MAX,
    DesiredStateCheckpoint,
    decode_checkpoint,
)
from dpone.contracts.errors import ContractInvalid
from dpone.contracts.errors_cache import (
    ActivationHistoryInvalid,
    CacheEnvironmentMismatch,
    CacheUnreadable,
    PointerRecoveryBlocked,
    PointerRecoveryRequired,
)
from dpone.contracts.errors_retention import (
    AckInvalid,
    AckRequired,
    DesiredCheckpointInvalid,
    DesiredCheckpointMismatch,
    DesiredCheckpointRequired,
    PromotionAuditInvalid,
)
from dpone.contracts.loader_ack import ACK_BYTES_MAX, LoaderAck, decode_ack
from dpone.ports.cachefiles import CacheFolder
from dpone.ports.files import FilesError
from dpone.retention.cache import Document, file_at

_CHECKPOINT = f"{layout.STATUS}/{layout.CHECKPOINT}"


@dataclass(frozen=True, slots=True)
class Current:
    """What is current: the pointer, and the bytes of the active index by their digest."""

    pointed: Pointed
    pointer_sha256: str
    index_sha256: str

    @property
    def deployment_id(self) -> str:
        """The deployment that is current."""
        return self.pointed.pointer.deployment_id

    @property
    def previous_id(self) -> str | None:
        """The deployment that a rollback would make current."""
        return self.pointed.previous

    @property
    def activation_id(self) -> str | None:
        """The activation, where the pointer names it."""
        found = self.pointed.pointer.activation_id
        return found if isinstance(found, str) else None


@dataclass(frozen=True, slots=True)
class Authority:
    """Everything that agreed. `history` is what the history is to be before the first deletion."""

    environment: str
    current: Current
    ack: LoaderAck
    checkpoint: DesiredStateCheckpoint
    present_history: ActivationHistory | None
    history: ActivationHistory
    digest: str


def read_current(root: CacheFolder, environment: str, *, deep: bool = True) -> Current | None:
    """What is current; None when neither pointer nor link is there.

    `deep` also compares the active release with its digests. Raises `PointerRecoveryBlocked`,
    `PointerRecoveryRequired`, `CacheEnvironmentMismatch`, `CacheUnreadable`.
    """
    data = file_at(root, layout.POINTER, POINTER_BYTES_MAX)
    link = _link(root)
    if data is None and link is None:
        return None
    if data is None or link is None:
        missing = layout.POINTER if data is None else layout.CURRENT
        raise PointerRecoveryRequired(reason=f"{missing} is not there")
    try:
        pointed = decode_pointer(data)
    except ContractInvalid as error:
        reason = error.fields["reason"]
        raise PointerRecoveryBlocked(file=layout.POINTER, reason=reason) from error
    pointer = pointed.pointer
    if pointer.environment != environment:
        raise CacheEnvironmentMismatch(found=pointer.environment, expected=environment)
    if link != layout.activation_path(environment, pointer.deployment_id):
        raise PointerRecoveryRequired(reason="the link leads to another activation")
    index_sha256 = check_projection(root, environment, pointed, deep=deep)
    return Current(pointed, _sha256(data), index_sha256)


def _link(root: CacheFolder) -> str | None:
    try:
        found = root.read_link(layout.CURRENT)
        if found is None and root.look(layout.CURRENT) is not None:
            raise PointerRecoveryRequired(reason="current is no link")
    except FilesError as error:
        raise CacheUnreadable(path=layout.CURRENT, reason=error.reason) from error
    return found


def check_projection(root: CacheFolder, environment: str, pointed: Pointed, *, deep: bool) -> str:
    """Compare the active deployment with its pointer; return the digest of its index's bytes."""
    pointer = pointed.pointer
    place = layout.activation_path(environment, pointer.deployment_id)
    try:
        if file_at(root, f"{place}/{layout.SUCCESS}", SET_BYTES_MAX) is None:
            raise PointerRecoveryRequired(reason="the active deployment is not complete")
        deployment = decode_deployment(_present(root, f"{place}/{layout.DEPLOYMENT_FILE}"))
        data = _present(root, f"{place}/{layout.INDEX_FILE}")
        index = decode_index(data)
        ids = (deployment.deployment_id, deployment.release_ref, deployment.environment)
        if ids != (pointer.deployment_id, pointer.release_id, environment):
            raise PointerRecoveryRequired(reason="the active deployment is another")
        if (index.deployment_id, index.release_id) != (pointer.deployment_id, pointer.release_id):
            raise PointerRecoveryRequired(reason="the active index is another deployment's")
        if deep:
            _check_release(root, pointer.release_id, index)
    except ContractInvalid as error:
        reason = f"the active deployment is malformed: {error.fields['reason']}"
        raise PointerRecoveryRequired(reason=reason) from error
    return _sha256(data)


def _present(root: CacheFolder, path: str) -> bytes:
    data = file_at(root, path, SET_BYTES_MAX)
    if data is None:
        raise PointerRecoveryRequired(reason=f"{path.rpartition('/')[2]} is not there")
    return data


def _check_release(root: CacheFolder, release_id: str, index: DeploymentIndex) -> None:
    place = layout.release_path(release_id)
    release = decode_release(_present(root, f"{place}/{layout.RELEASE_FILE}"))
    if release.release_id != release_id:
        raise PointerRecoveryRequired(reason="the active release is another")
    known = {spec.id: spec for spec in release.artifacts.dag_specs}
    for dag in index.dag_specs:
        spec = known.get(dag.id)
        if spec is None or spec.sha256 != dag.sha256 or ".." in spec.path.split("/"):
            raise PointerRecoveryRequired(reason="the active index names what the release has not")
        data = file_at(root, f"{place}/{spec.path}", SPEC_BYTES_MAX)
        if data is None or _sha256(data) != spec.sha256:
            raise PointerRecoveryRequired(reason="a file of the active release is another")


# -- authority -------------------------------------------------------------------------------------


def read_authority(
    root: CacheFolder, environment: str, ack_file: Document | None, *, deep: bool = True
) -> Authority:
    """Read everything that must agree, and compare it. Raises a `RetentionError` for each mismatch.

    The order is the one of ADR 0043: current, acknowledgement, audit, checkpoint, history.
    """
    current = read_current(root, environment, deep=deep)
    if current is None:
        raise PointerRecoveryRequired(reason="nothing is current")
    ack = _ack(ack_file)
    _compare_ack(current, ack)
    audit = read_audit(root)
    if audit.fields != current.pointed.fields:
        raise PromotionAuditInvalid(reason="its last event is another promotion")
    checkpoint, checkpoint_sha256 = read_checkpoint(root)
    _compare_checkpoint(checkpoint, environment, ack)
    present, legacy = read_history(root)
    return Authority(
        environment=environment,
        current=current,
        ack=ack,
        checkpoint=checkpoint,
        present_history=present,
        history=prospective_history(present, ack, legacy_sha256=legacy),
        digest=_digest(current, ack, checkpoint_sha256),
    )


def _digest(current: Current, ack: LoaderAck, checkpoint_sha256: str) -> str:
    said = plain(ack)
    del said["acknowledged_at"]
    return digest(
        {
            "pointer": current.pointer_sha256,
            "index": current.index_sha256,
            "ack": said,
            "checkpoint": checkpoint_sha256,
        }
    )


def _ack(ack_file: Document | None) -> LoaderAck:
    if ack_file is None:
        raise AckRequired(reason="the option is missing")
    try:
        data = ack_file.read(ACK_BYTES_MAX)
    except FilesError as error:
        raise AckInvalid(reason=error.reason) from error
    if data is None:
        raise AckRequired(reason="there is no such file")
    try:
        ack = decode_ack(data)
    except ContractInvalid as error:
        raise AckInvalid(reason=error.fields["reason"]) from error
    if not isinstance(ack, LoaderAck):
        raise AckInvalid(reason="version 1 does not say which activation was loaded")
    if ack.incomplete:
        raise AckInvalid(reason=ack.incomplete)
    return ack


def _compare_ack(current: Current, ack: LoaderAck) -> None:
    pointer = current.pointed.pointer
    pairs = {
        "the deployment": (ack.deployment_id, pointer.deployment_id),
        "the release": (ack.release_id, pointer.release_id),
        "the activation": (ack.activation_id, current.activation_id),
        "the index": (ack.airflow_index_sha256, current.index_sha256),
    }
    for what, (said, found) in pairs.items():
        if said != found:
            raise AckInvalid(reason=f"{what} that was loaded is not the current one")


def read_audit(root: CacheFolder) -> Pointed:
    """The last promotion of the audit. Raises `PromotionAuditInvalid`."""
    data = file_at(root, layout.AUDIT, AUDIT_BYTES_MAX)
    if data is None:
        raise PromotionAuditInvalid(reason="it is not there")
    try:
        return last_event(data)
    except ContractInvalid as error:
        raise PromotionAuditInvalid(reason=error.fields["reason"]) from error


def read_checkpoint(root: CacheFolder) -> tuple[DesiredStateCheckpoint, str]:
    """The checkpoint and the digest of its bytes. Raises a `RetentionError`."""
    data = file_at(root, _CHECKPOINT, CHECKPOINT_BYTES_MAX)
    if data is None:
        raise DesiredCheckpointRequired
    try:
        return decode_checkpoint(data), _sha256(data)
    except ContractInvalid as error:
        raise DesiredCheckpointInvalid(reason=error.fields["reason"]) from error


def _compare_checkpoint(
    checkpoint: DesiredStateCheckpoint, environment: str, ack: LoaderAck
) -> None:
    pairs = {
        "environment": (checkpoint.environment, environment),
        "release_id": (checkpoint.release_id, ack.release_id),
        "deployment_id": (checkpoint.deployment_id, ack.deployment_id),
        "activation_id": (checkpoint.activation_id, ack.activation_id),
        "airflow_index_sha256": (checkpoint.airflow_index_sha256, ack.airflow_index_sha256),
        "occurrence_id": (checkpoint.occurrence_id, checkpoint.activation_id),
        "expected_dag_ids": (sorted(checkpoint.expected_dag_ids), list(ack.loaded_dag_ids)),
    }
    for field, (wanted, found) in pairs.items():
        if wanted != found:
            raise DesiredCheckpointMismatch(field=field)


def read_history(root: CacheFolder) -> tuple[ActivationHistory | None, str | None]:
    """The history, and the digest of the file of version 1. Raises `ActivationHistoryInvalid`."""
    data = file_at(root, layout.HISTORY, HISTORY_BYTES_MAX)
    earlier = file_at(root, layout.EARLIER_HISTORY, HISTORY_BYTES_MAX)
    try:
        present = None if data is None else decode_history(data)
    except ContractInvalid as error:
        raise ActivationHistoryInvalid(reason=error.fields["reason"]) from error
    return present, None if earlier is None else _sha256(earlier)


def _sha256(data: bytes) -> str:
    return "sha256:" + hashlib.sha256(data).hexdigest()
