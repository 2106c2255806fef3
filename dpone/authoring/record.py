"""The open transaction of one leaf: its locked journal, and the names that it may touch.

Promise: the journal appears whole or not at all, is locked before it has a name, and whoever finds
one without a live owner may act on it. The lock tells live from dead only; correctness against
other programs rests on the exchange. Source: ADR 0023, step 2 and step 5.
"""

from __future__ import annotations

from dataclasses import dataclass

from dpone.contracts.effects import Effect
from dpone.contracts.errors import ContractInvalid
from dpone.contracts.errors_authoring import RecordUnreadable, TransactionInProgress
from dpone.contracts.publication import receipt_name
from dpone.contracts.transaction import (
    JOURNAL_BYTES_MAX,
    PHASE_OFFSET,
    EarlierTransaction,
    Phase,
    Transaction,
    decode,
    draft_name,
    encode,
    journal_name,
)
from dpone.ports.files import (
    AccessDenied,
    Attributes,
    ChangedDuringRead,
    FilesError,
    FileTooLarge,
    Folder,
    Held,
    LinkForbidden,
    NamelessUnsupported,
    NameMissing,
    NameTaken,
    NotRegular,
    Record,
)
from dpone.ports.probe import Probe

_LOOKS_MAX = 5


@dataclass(frozen=True, slots=True)
class Place:
    """A leaf in an open folder, and the probe that watches what happens to it."""

    folder: Folder
    leaf: str
    probe: Probe

    @property
    def path(self) -> str:
        """The leaf's path, relative to the project root."""
        return f"{self.folder.path}/{self.leaf}" if self.folder.path else self.leaf

    @property
    def journal(self) -> str:
        """The journal's name."""
        return journal_name(self.leaf, self.folder.name_bytes_max)

    def beside(self, leaf: str) -> str:
        """The project-relative path of a sibling."""
        return f"{self.folder.path}/{leaf}" if self.folder.path else leaf

    def told(self, *leaves: str | None) -> str:
        """The paths of kept bytes for a message; `none` when nothing is kept."""
        return ", ".join(self.beside(leaf) for leaf in leaves if leaf) or "none"

    def sync(self) -> None:
        """Have all names of the folder durable. Raises `SyncFailed`."""
        with self.probe(Effect.AUTHORING_SYNC):
            self.folder.sync()


class Malformed(Exception):
    """A record's name shows something that is no record of this leaf; `name` is the name.

    It is no file, or its bytes were read and are not a record's; never what cannot be opened.
    """

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


@dataclass(slots=True)
class Ledger:
    """A transaction whose journal this process has locked.

    `scratch`: there may be files of a rehearsal, this process's or a dead one's. `rehearsed`: this
    process has removed some, and not yet synced. `given`: the attributes that the new file was
    given; None when another process gave them.
    """

    place: Place
    record: Record
    journal: Transaction | EarlierTransaction
    scratch: bool = True
    rehearsed: bool = False
    given: Attributes | None = None
    _phase: Phase | None = None

    @property
    def current(self) -> Transaction:
        """The journal in its present version."""
        assert isinstance(self.journal, Transaction)
        return self.journal

    @property
    def phase(self) -> Phase:
        """Where the transaction stands: as the journal was found, or as `enter` made it."""
        return Phase(self.current.phase) if self._phase is None else self._phase

    def enter(self, phase: Phase, effect: Effect) -> None:
        """Make a phase durable: one byte at a fixed offset. Raises `SyncFailed`."""
        with self.place.probe(effect):
            self.record.patch(PHASE_OFFSET, str(int(phase)).encode())
        self._phase = phase

    def identify(self, identity: str) -> None:
        """Write the desired identity over its placeholder, while the phase is staging."""
        assert self.phase is Phase.STAGING
        marker = b'"desired_identity":"'
        offset = encode(self.current).index(marker) + len(marker)
        self.record.patch(offset, identity.encode())
        fields = {name: getattr(self.current, name) for name in Transaction.__struct_fields__}
        self.journal = Transaction(**{**fields, "desired_identity": identity})

    def close(self) -> None:
        """Clear the scratch names, then the journal itself. Raises `FilesError`."""
        is_found = self.scratch and isinstance(self.journal, Transaction) and self._clear_scratch()
        if is_found or self.rehearsed:
            self.place.sync()
        with self.place.probe(Effect.AUTHORING_CLOSE):
            self.place.folder.unlink(self.place.journal)
        self.place.sync()

    def _clear_scratch(self) -> bool:
        found = False
        for name in self.current.scratch_names:
            if self.place.folder.look(name) is not None:
                found = True
                with self.place.probe(Effect.AUTHORING_DISCARD):
                    self.place.folder.unlink(name)
        return found


def begin(place: Place, journal: Transaction) -> Ledger:
    """Make a journal durable under its name, locked. Raises `TransactionInProgress`."""
    data = encode(journal)
    try:
        record = place.folder.stage_record(data)
    except NamelessUnsupported:
        return _begin_by_draft(place, journal, data)
    try:
        with place.probe(Effect.AUTHORING_RECORD):
            place.folder.link(record, place.journal)
    except NameTaken:
        record.close()
        raise TransactionInProgress(path=place.path) from None
    except BaseException as error:
        if not is_named(place, place.journal, record, error):
            record.close()
            raise
    return Ledger(place, record, journal, scratch=False)


def _begin_by_draft(place: Place, journal: Transaction, data: bytes) -> Ledger:
    """Without nameless files the journal is complete and locked before it is renamed."""
    draft = draft_name(place.journal)
    try:
        with place.probe(Effect.AUTHORING_STAGE):
            record = place.folder.create_record(draft, data)
    except NameTaken:
        raise TransactionInProgress(path=place.path) from None
    try:
        with place.probe(Effect.AUTHORING_RECORD):
            place.folder.move(draft, place.journal)
    except (NameTaken, NameMissing):
        drop_draft(place, record, draft)
        record.close()
        raise TransactionInProgress(path=place.path) from None
    except BaseException as error:
        if not is_named(place, place.journal, record, error):
            record.close()
            raise
    return Ledger(place, record, journal, scratch=False)


def is_named(place: Place, name: str, made: Held | str, error: BaseException) -> bool:
    """Whether a call that failed has named a file all the same: its answer may have been lost.

    `made` is the file or its identity.
    """
    if not isinstance(error, FilesError):
        return False
    try:
        shown = place.folder.look(name)
        identity = made if isinstance(made, str) else made.look().identity
        return shown is not None and shown.identity == identity
    except FilesError:
        return False


def drop_draft(place: Place, record: Record, draft: str) -> None:
    """The one who came second wrote nothing: his draft goes too."""
    shown = place.folder.look(draft)
    if shown is not None and shown.identity == record.look().identity:
        with place.probe(Effect.AUTHORING_DISCARD):
            place.folder.unlink(draft)


def find(place: Place) -> Ledger | None:
    """Lock the leaf's journal, whose owner is then dead; None when there is none.

    Raises `TransactionInProgress` while its owner lives, `RecordUnreadable` when this user may not
    tell, `FilesError` when nobody can, and `Malformed` when it, or its draft, is none.
    """
    _clear_draft(place)
    for _ in range(_LOOKS_MAX):
        record = _locked(place, place.journal)
        if record is None:
            return None
        try:
            if _still_named(place, record, place.journal):
                return Ledger(place, record, _read(place, record))
        except BaseException:
            record.close()
            raise
        record.close()
    raise TransactionInProgress(path=place.path)


def pending(place: Place) -> bool:
    """Whether a journal or receipt bears its name; nothing is locked or changed."""
    receipt = receipt_name(place.leaf, place.folder.name_bytes_max)
    names = (receipt, *unsettled(place))
    return any(place.folder.look(name) is not None for name in names)


def unsettled(place: Place) -> tuple[str, ...]:
    """The names that a change of the file leaves only when it could not be cleared up."""
    receipt = receipt_name(place.leaf, place.folder.name_bytes_max)
    return place.journal, draft_name(place.journal), draft_name(receipt)


def _read(place: Place, record: Record) -> Transaction | EarlierTransaction:
    try:
        return decode(record.read(JOURNAL_BYTES_MAX), place.leaf)
    except (ContractInvalid, FileTooLarge) as error:
        raise Malformed(place.journal) from error
    except ChangedDuringRead as error:
        # Whoever writes to it now takes no lock of ours.
        raise TransactionInProgress(path=place.path) from error


def unreadable(place: Place, name: str, error: AccessDenied) -> RecordUnreadable:
    """The refusal for a record that this user may not open: it may be a living owner's."""
    shown = place.folder.look(name)
    owner = "unknown" if shown is None else str(shown.owner)
    reason = error.detail or error.reason
    return RecordUnreadable(path=place.path, record=place.beside(name), owner=owner, reason=reason)


def _locked(place: Place, name: str) -> Record | None:
    try:
        record = place.folder.record(name)
    except (LinkForbidden, NotRegular) as error:
        raise Malformed(name) from error
    except AccessDenied as error:
        raise unreadable(place, name, error) from error
    if record is not None and not record.lock():
        record.close()
        raise TransactionInProgress(path=place.path)
    return record


def _still_named(place: Place, record: Record, name: str) -> bool:
    """Whether the locked inode bears the name; else its owner ended while we waited."""
    shown, held = place.folder.look(name), record.look()
    return shown is not None and shown.identity == held.identity


def _clear_draft(place: Place) -> None:
    """Remove a journal that its dead owner had not yet named. It names nothing that exists.

    Raises `Malformed` for what is no file: it would be in the way of every later draft.
    """
    draft = draft_name(place.journal)
    if place.folder.look(draft) is None:
        return
    record = _locked(place, draft)
    if record is None:
        return
    try:
        if _still_named(place, record, draft):
            with place.probe(Effect.AUTHORING_DISCARD):
                place.folder.unlink(draft)
    finally:
        record.close()
