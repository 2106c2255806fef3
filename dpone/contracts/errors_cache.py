"""Errors of a deployment cache: its root, its pointer, its locks, its history. Source: ADR 0043."""

from __future__ import annotations

from dpone.contracts.errors import EXIT_CLOSED, EXIT_CONFLICT, EXIT_LATER, EXIT_USAGE
from dpone.contracts.errors_retention import RetentionError

_UNTOUCHED = "Nothing was deleted."


class CacheRootUnsafe(RetentionError):
    """The directory must not be taken for a cache."""

    code = "DPONE_DEPLOYMENT_CACHE_ROOT_UNSAFE"
    exit_code = EXIT_CLOSED
    happened = "The cache root cannot be used: {reason}."
    known = "Nothing was read, made or deleted."
    advice = "Give the cache's own directory: --cache-root"


class CacheRootMissing(RetentionError):
    """There is no directory at the cache root."""

    code = "DPONE_DEPLOYMENT_CACHE_ROOT_NOT_FOUND"
    exit_code = EXIT_USAGE
    happened = "Nothing is at the cache root {root}."
    known = "Nothing was made."
    advice = "Give the directory of an existing cache, or make one: dpone airflow cache-materialize"


class CacheLayoutMissing(RetentionError):
    """The directory is not marked as a cache."""

    code = "DPONE_DEPLOYMENT_CACHE_LAYOUT_NOT_FOUND"
    exit_code = EXIT_CLOSED
    happened = "The directory has no .dpone-cache-layout.json, so it is no cache of ours."
    known = "Nothing was read further, made or deleted."
    advice = "Give the cache's own directory: --cache-root"


class CacheLayoutInvalid(RetentionError):
    """The cache has another layout."""

    code = "DPONE_DEPLOYMENT_CACHE_LAYOUT_INVALID"
    exit_code = EXIT_CLOSED
    happened = "The cache's layout is not the one that is known here: {reason}."
    known = "Nothing was changed."
    advice = "Use the version that wrote this cache."


class CacheEnvironmentMismatch(RetentionError):
    """The cache is another environment's."""

    code = "DPONE_DEPLOYMENT_CACHE_ENVIRONMENT_MISMATCH"
    exit_code = EXIT_CLOSED
    happened = "The cache belongs to {found}, not to {expected}."
    known = "Nothing was read further or deleted."
    advice = "Give the cache of {expected}, or --environment {found}."


class CacheUnreadable(RetentionError):
    """A part of the cache cannot be read."""

    code = "DPONE_DEPLOYMENT_CACHE_UNREADABLE"
    exit_code = EXIT_CLOSED
    happened = "{path} cannot be read: {reason}."
    known = "Nothing was changed."
    advice = "Give this user the permission to read it, or repair the volume, and run again."


class CacheTooLarge(RetentionError):
    """The cache holds more entries than a plan can."""

    code = "DPONE_DEPLOYMENT_CACHE_INVENTORY_FULL"
    exit_code = EXIT_CLOSED
    happened = "The cache holds more than {limit} {what}."
    known = "Nothing was changed."
    advice = "Move what is quarantined out of the cache, and plan again."


class PointerRecoveryRequired(RetentionError):
    """What is current cannot be told."""

    code = "DPONE_DEPLOYMENT_CACHE_RECOVERY_REQUIRED"
    exit_code = EXIT_CLOSED
    happened = "The pointer, the link and the active deployment disagree: {reason}."
    known = "Nothing was changed."
    advice = "Promote again, which repairs the pointer and its audit, and plan again."


class PointerRecoveryBlocked(RetentionError):
    """The pointer to what is current is malformed."""

    code = "DPONE_DEPLOYMENT_CACHE_RECOVERY_BLOCKED"
    exit_code = EXIT_CLOSED
    happened = "{file} cannot be used: {reason}."
    known = "Its bytes were left as they are; nothing was deleted."
    advice = "Copy the file, promote again, and plan again."


class ActivationHistoryConflict(RetentionError):
    """The history knows this activation as something else."""

    code = "DPONE_DEPLOYMENT_CACHE_ACTIVATION_HISTORY_CONFLICT"
    exit_code = EXIT_CONFLICT
    happened = (
        "The history says of the activation {activation_id} something else than its "
        "acknowledgement."
    )
    known = "The history was left as it is; nothing was deleted."
    advice = "Find out which loader wrote the acknowledgement, and let it load what is current."


class ActivationHistoryFailed(RetentionError):
    """The activation history could not be written."""

    code = "DPONE_DEPLOYMENT_CACHE_ACTIVATION_HISTORY_FAILED"
    exit_code = EXIT_CLOSED
    happened = "The activation history could not be written durably: {reason}."
    known = "The receipt names the revision that is due; nothing was deleted."
    advice = "Make room or repair the volume, and repeat the same command."


class ActivationHistoryFull(RetentionError):
    """The activation history is full."""

    code = "DPONE_DEPLOYMENT_CACHE_ACTIVATION_HISTORY_FULL"
    exit_code = EXIT_CLOSED
    happened = "The activation history has no room for another entry (at most {limit}, and 4 MiB)."
    known = "Nothing was deleted."
    advice = "Archive the history file, and apply again: a new one is begun."


class ActivationHistoryInvalid(RetentionError):
    """The activation history cannot be relied on."""

    code = "DPONE_DEPLOYMENT_CACHE_ACTIVATION_HISTORY_INVALID"
    exit_code = EXIT_CLOSED
    happened = "The activation history cannot be used: {reason}."
    known = "Its bytes were left as they are; nothing was deleted."
    advice = "Move it out of the cache and keep it; a new one is begun."


class ActivationSnapshotFailed(RetentionError):
    """A sealed activation could not be made."""

    code = "DPONE_DEPLOYMENT_CACHE_ACTIVATION_SNAPSHOT_FAILED"
    exit_code = EXIT_CLOSED
    happened = "The activation of {deployment_id} could not be sealed: {reason}."
    known = "What was current before is current still."
    advice = "Remove the cause, and run the command again."


class PromotionLockBusy(RetentionError):
    """Somebody holds the promotion lock."""

    code = "DPONE_CACHE_PROMOTION_LOCK_BUSY"
    exit_code = EXIT_LATER
    happened = "The promotion lock was not free within {wait_s} seconds."
    known = "What this operation confirmed before is in its receipt."
    advice = "Repeat the same command later; loaders and promotions hold the lock for moments only."


class PromotionLockFailed(RetentionError):
    """The promotion lock cannot be taken."""

    code = "DPONE_CACHE_PROMOTION_LOCK_FAILED"
    exit_code = EXIT_CLOSED
    happened = "The promotion lock cannot be used: {reason}."
    known = _UNTOUCHED
    advice = "Give this user the permission to lock .promotion.lock, and run again."


class PromotionLockUnsupported(RetentionError):
    """The file system knows no such lock."""

    code = "DPONE_CACHE_PROMOTION_LOCK_UNSUPPORTED"
    exit_code = EXIT_CLOSED
    happened = "The file system of the cache knows no advisory locks ({reason})."
    known = _UNTOUCHED
    advice = "Keep the cache on a file system with advisory locks, such as a local ext4."


class ReconcileLockBusy(RetentionError):
    """Another operation is at work in this cache."""

    code = "DPONE_CACHE_RECONCILE_LOCK_BUSY"
    exit_code = EXIT_LATER
    happened = "The reconcile lock was not free within {wait_s} seconds."
    known = _UNTOUCHED
    advice = "Repeat the same command when the other operation has ended."


class ReconcileLockFailed(RetentionError):
    """The reconcile lock cannot be taken."""

    code = "DPONE_CACHE_RECONCILE_LOCK_FAILED"
    exit_code = EXIT_CLOSED
    happened = "The reconcile lock cannot be used: {reason}."
    known = _UNTOUCHED
    advice = "Give this user the permission to lock .reconcile.lock, and run again."


class ReconcileLockUnsupported(RetentionError):
    """The file system knows no such lock."""

    code = "DPONE_CACHE_RECONCILE_LOCK_UNSUPPORTED"
    exit_code = EXIT_CLOSED
    happened = "The file system of the cache knows no advisory locks ({reason})."
    known = _UNTOUCHED
    advice = "Keep the cache on a file system with advisory locks, such as a local ext4."


class MaterializeConflict(RetentionError):
    """Something else stands where the deployment belongs."""

    code = "DPONE_CACHE_MATERIALIZE_CONFLICT"
    exit_code = EXIT_CONFLICT
    happened = "{path} exists and is not what would be written."
    known = "It was left as it is."
    advice = "Move it away, or use another --fixture, and run again."


class MaterializeFailed(RetentionError):
    """The deployment could not be written."""

    code = "DPONE_CACHE_MATERIALIZE_FAILED"
    exit_code = EXIT_CLOSED
    happened = "{path} could not be written: {reason}."
    known = "Nothing unfinished stands at a name that anybody reads."
    advice = "Make room or give the permission, and run the same command again."
