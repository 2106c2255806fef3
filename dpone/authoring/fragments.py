"""New files on their way: complete and synced, known to a receipt, and only then named.

Promise: no new file has its name before its identity is durable in the receipt beside the root; a
name that somebody else took meanwhile stays theirs. Source: ADR 0023, multi-file authoring apply,
step 2.
"""

from __future__ import annotations

from contextlib import ExitStack, suppress
from dataclasses import dataclass

from dpone.authoring.confined import split
from dpone.authoring.receipts import OpenReceipt, open_receipt
from dpone.authoring.record import Place, is_named
from dpone.authoring.survey import digest_of
from dpone.contracts.effects import Effect
from dpone.contracts.errors_authoring import FileConflict
from dpone.contracts.publication import (
    RECEIPT_SCHEMA,
    Change,
    Entry,
    Publication,
    Receipt,
)
from dpone.contracts.transaction import NO_IDENTITY, side_name
from dpone.ports.files import Files, FilesError, NamelessUnsupported, NameTaken, Staged
from dpone.ports.probe import Probe


@dataclass(slots=True)
class New:
    """A new file on its way: its entry, and the nameless file where there is one."""

    change: Change
    place: Place
    staged: Staged | None
    entry: Entry


class Fragments:
    """The new files of one publication. What it opens is closed by `stack`.

    `named`: entries of the files that have their name. `folders`: directories that were made,
    `durable`: those that are known to be so. `receipt`: what outlives the process; None before
    anything is to be undone.
    """

    def __init__(self, files: Files, probe: Probe, stack: ExitStack) -> None:
        self.files = files
        self.probe = probe
        self.stack = stack
        self.receipt: OpenReceipt | None = None
        self.news: list[New] = []
        self.named: list[Entry] = []
        self.folders: list[str] = []
        self.durable: set[str] = set()

    def prepare(self, plan: Publication, missing: list[Change], nonce: str) -> None:
        """Make the folders, complete the files, and have the receipt durable."""
        for change in missing:
            self._make_folders(split(change.path)[0])
        self.news = [self._stage(change, nonce, number) for number, change in enumerate(missing)]
        if self.news:
            self.receipt = self._receipt(plan, nonce)
            self.receipt.place.sync()
        if self.receipt is not None:
            self.receipt.durable = True
        if any(new.staged is None for new in self.news):
            self._complete()

    def of(self, change: Change) -> New | None:
        """The new file of a change."""
        return next((new for new in self.news if new.change is change), None)

    def _make_folders(self, path: str) -> None:
        """Have every folder of a path, durably: one that is there may be a dead run's, unsynced."""
        parent, made = "", ""
        for part in path.split("/") if path else []:
            made = f"{parent}/{part}" if parent else part
            if made not in self.durable:
                with self.files.folder(parent) as folder:
                    if folder.look(part) is None:
                        # Somebody may make it just now; it is as good as ours, and theirs.
                        with suppress(NameTaken):
                            with self.probe(Effect.AUTHORING_FOLDER):
                                folder.make_folder(part)
                            self.folders.append(made)
                    Place(folder, part, self.probe).sync()
                self.durable.add(made)
            parent = made

    def _stage(self, change: Change, nonce: str, number: int) -> New:
        parent, leaf = split(change.path)
        folder = self.stack.enter_context(self.files.folder(parent))
        staged: Staged | None
        try:
            staged = folder.stage(change.after)
            self.stack.callback(staged.close)
        except NamelessUnsupported:
            staged = None
        look = staged.look() if staged is not None else None
        entry = Entry(
            path=change.path,
            sha256=change.after_sha256,
            size=len(change.after),
            device=look.device if look is not None else 0,
            identity=look.identity if look is not None else NO_IDENTITY,
            side=f"{side_name(nonce)}-{number}",
            shared=change.shared,
        )
        return New(change, Place(folder, leaf, self.probe), staged, entry)

    def _receipt(self, plan: Publication, nonce: str) -> OpenReceipt:
        parent, leaf = split(plan.root.path)
        folder = self.stack.enter_context(self.files.folder(parent))
        opened = open_receipt(
            Place(folder, leaf, self.probe),
            Receipt(
                phase=1 if all(new.staged is not None for new in self.news) else 0,
                schema=RECEIPT_SCHEMA,
                root_name=leaf,
                plan_id=plan.plan_id,
                nonce=nonce,
                before_sha256=plan.root.before_sha256 or "",
                after_sha256=plan.root.after_sha256,
                entries=tuple(new.entry for new in self.news),
            ),
        )
        self.stack.callback(opened.record.close)
        return opened

    def _complete(self) -> None:
        """Without nameless files: write them under the side names that the receipt knows.

        Those names need no sync of their own: the next one covers them and the proper names.
        """
        assert self.receipt is not None
        for new in self.news:
            with self.probe(Effect.AUTHORING_STAGE):
                made = new.place.folder.create(new.entry.side, new.change.after)
            new.entry = _identified(new.entry, made.look().identity)
            made.close()
        fields = {name: getattr(self.receipt.receipt, name) for name in Receipt.__struct_fields__}
        fields |= {"phase": 1, "entries": tuple(new.entry for new in self.news)}
        self.receipt.complete(Receipt(**fields))

    def name(self, new: New) -> bool:
        """Give a new file its name; False when somebody has meanwhile put the same bytes there.

        Raises `FileConflict` when he put other bytes there.
        """
        try:
            with self.probe(Effect.AUTHORING_PUBLISH):
                if new.staged is not None:
                    new.place.folder.link(new.staged, new.place.leaf)
                else:
                    new.place.folder.move(new.entry.side, new.place.leaf)
        except NameTaken:
            self._yield_to(new)
        except FilesError as error:
            if not is_named(new.place, new.place.leaf, new.entry.identity, error):
                raise
            self.named.append(new.entry)
        else:
            self.named.append(new.entry)
        # Also when it is somebody else's: our root is about to stand on it.
        new.place.sync()
        return new.entry in self.named

    def rely_on(self, place: Place) -> None:
        """Have a shared name durable that another run gave, and may have died before it synced."""
        place.sync()

    def _yield_to(self, new: New) -> None:
        """Leave a name to whoever took it with the planned bytes. Raises `FileConflict`."""
        try:
            shown = digest_of(new.place)
        except FilesError:
            shown = ""
        if shown != new.entry.sha256:
            raise FileConflict(path=new.change.path)
        if new.staged is None:
            # The receipt knows the side file, and goes when the root is in force.
            with self.probe(Effect.AUTHORING_DISCARD):
                new.place.folder.unlink(new.entry.side)


def _identified(entry: Entry, identity: str) -> Entry:
    fields = {name: getattr(entry, name) for name in Entry.__struct_fields__}
    return Entry(**{**fields, "identity": identity})
