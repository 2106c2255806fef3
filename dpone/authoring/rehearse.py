"""A rehearsal of the exchange with two scratch files, in the very directory, before the first use.

Promise: a file system that refuses the exchange, or reports success and does something else, is
found out before a user's file is touched. The scratch names come from the journal's nonce and are
cleared under its lock. Source: ADR 0023, native-platform contract; file systems that lie.
"""

from __future__ import annotations

from dpone.authoring.record import Ledger
from dpone.contracts.effects import Effect
from dpone.ports.files import ExchangeUnsupported, FilesError, NameMissing, StorageFull


def rehearse(ledger: Ledger) -> None:
    """Exchange two scratch files unless this directory is certified.

    Raises `ExchangeUnsupported`.
    """
    folder = ledger.place.folder
    verdict = folder.certified()
    if verdict is None:
        ledger.scratch = ledger.rehearsed = True
        try:
            verdict = _tried(ledger)
        finally:
            _clear(ledger)
        folder.certify(verdict)
    if not verdict:
        raise ExchangeUnsupported(ledger.place.leaf)


def _tried(ledger: Ledger) -> bool:
    place, folder = ledger.place, ledger.place.folder
    left, right = ledger.current.scratch_names
    identities: list[str] = []
    for name, data in ((left, b"a"), (right, b"b")):
        with place.probe(Effect.AUTHORING_REHEARSE):
            made = folder.create_record(name, data)
        identities.append(made.look().identity)
        made.close()
    try:
        with place.probe(Effect.AUTHORING_REHEARSE):
            folder.exchange(left, right)
    except FilesError as error:
        if type(error) in (FilesError, StorageFull):
            # A failing disk says nothing about the exchange.
            raise
        return False
    shown = [folder.look(name) for name in (left, right)]
    return [look.identity for look in shown if look is not None] == identities[::-1]


def _clear(ledger: Ledger) -> None:
    for name in ledger.current.scratch_names:
        try:
            with ledger.place.probe(Effect.AUTHORING_DISCARD):
                ledger.place.folder.unlink(name)
        except NameMissing:
            continue
