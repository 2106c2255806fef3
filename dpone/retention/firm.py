"""Makes durable what a process that died had written and not yet synced.

A run that follows a death sees names and bytes that a loss of power could still take back. Promise:
what it reads after this is durable, so nothing that it deletes, forgets or reports rests on less.
Nothing is changed. Source: ADR 0043, step 2.
"""

from __future__ import annotations

from contextlib import suppress

from dpone.contracts import cache_layout as layout
from dpone.contracts.retention_archive import ARCHIVE
from dpone.ports.cachefiles import CacheFolder
from dpone.ports.files import AccessDenied, LinkForbidden, NameMissing, NotAFolder, NotRegular
from dpone.retention.cache import below


def make_firm(root: CacheFolder, environment: str) -> None:
    """Sync the log and every directory that an operation changes names in. Raises `FilesError`.

    What cannot be opened is left to its reader, who says what is wrong with it.
    """
    with suppress(LinkForbidden, NotRegular, AccessDenied):
        log = root.log(layout.LOG, create=False)
        if log is not None:
            try:
                log.sync()
            finally:
                log.close()
    for path in (
        f"{layout.DEPLOYMENTS}/{environment}",
        f"{layout.ACTIVATIONS}/{environment}",
        layout.TRASH,
        layout.RECEIPTS,
        ARCHIVE,
        "",
    ):
        with (
            suppress(NameMissing, LinkForbidden, NotAFolder, AccessDenied),
            below(root, path) as folder,
        ):
            folder.sync()
