"""Moves finished receipts into a digest-chained archive, where a replay still finds them.

Promise: the manifest is durable before the first receipt moves; a receipt keeps its bytes and is at
every moment either among the receipts or in the archive, and one that is missing or not the one
that its manifest digests is named; an interrupted move goes on with the next one.
Source: ADR 0043.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import NamedTuple

from dpone.contracts.authoring import Kind
from dpone.contracts.cache_layout import RECEIPTS, bytes_digest
from dpone.contracts.effects import Effect
from dpone.contracts.errors import ContractInvalid
from dpone.contracts.errors_retention import PlanChanged, ReceiptInvalid
from dpone.contracts.retention_archive import (
    ARCHIVE,
    MANIFEST,
    MANIFEST_BYTES_MAX,
    SEGMENTS_MAX,
    Archived,
    ArchiveManifest,
    decode_manifest,
    encode_manifest,
    manifest_of,
    segment_name,
)
from dpone.contracts.retention_receipt import (
    RECEIPT_BYTES_MAX,
    LegacyReceipt,
    Receipt,
    decode_receipt,
    receipt_name,
)
from dpone.ports.cachefiles import CacheFiles, CacheFolder
from dpone.ports.files import FilesError, NameMissing, NameTaken
from dpone.ports.probe import Probe
from dpone.retention.acknowledge import forget_acknowledged
from dpone.retention.receipts import Receipts, check_private, make_private
from dpone.retention.store import Nonces, clear_temporaries, put, read
from dpone.retention.wal import Wal


class Proposed(NamedTuple):
    """What an archive step would move."""

    manifest: ArchiveManifest
    segments: int


class Archive:
    """The archive of one cache."""

    def __init__(self, files: CacheFiles, store: Receipts, probe: Probe, nonces: Nonces) -> None:
        self.files = files
        self.store = store
        self.probe = probe
        self.nonces = nonces

    # -- reading

    def find(self, operation_id: str) -> Receipt | None:
        """The archived receipt of an operation, as its manifest digests it.

        Raises `ReceiptInvalid`, also where a manifest names it and it is gone.
        """
        name = receipt_name(operation_id)
        with self._folder() as folder:
            for segment in self._segments(folder):
                assert folder is not None
                with folder.below(segment) as inner:
                    data = read(inner, name, RECEIPT_BYTES_MAX)
                    listed = read(inner, MANIFEST, MANIFEST_BYTES_MAX) or b""
                if data is None and operation_id.encode() not in listed:
                    continue
                rows = self._manifest(folder, segment).receipts
                row = next((it for it in rows if it.operation_id == operation_id), None)
                if data is not None or row is not None:
                    found = self._listed(f"{ARCHIVE}/{segment}/{name}", data, row)
                    return found if isinstance(found, Receipt) else None
        return None

    def _listed(
        self, file: str, data: bytes | None, row: Archived | None
    ) -> Receipt | LegacyReceipt | None:
        """A receipt that is what its manifest says; None where its step has not moved it yet."""
        if row is None:
            raise ReceiptInvalid(file=file, reason="its manifest does not name it")
        if data is None:
            if self.store.raw(row.operation_id) is not None:
                return None
            raise ReceiptInvalid(file=file, reason="it is not there")
        if bytes_digest(data) != row.sha256:
            raise ReceiptInvalid(file=file, reason="it is not what was archived")
        try:
            return decode_receipt(data)
        except ContractInvalid as error:
            raise ReceiptInvalid(file=file, reason=str(error.fields["reason"])) from error

    def every(self) -> Iterator[Receipt | LegacyReceipt]:
        """All archived receipts, checked one by one, and their chain. Raises `ReceiptInvalid`."""
        for manifest in self.manifests():
            segment = f"{ARCHIVE}/{segment_name(manifest.number)}"
            for row in manifest.receipts:
                name = receipt_name(row.operation_id)
                data = self._data(segment, name)
                if data is None and self.store.raw(row.operation_id) is None:
                    # A step that is at work may have moved it between the two looks.
                    data = self._data(segment, name)
                found = self._listed(f"{segment}/{name}", data, row)
                if found is not None:
                    yield found

    def _data(self, segment: str, name: str) -> bytes | None:
        with self.files.folder(segment) as inner:
            return read(inner, name, RECEIPT_BYTES_MAX)

    def raw(self, operation_id: str) -> bytes | None:
        """The bytes of an archived receipt as they lie there, whatever its manifest says."""
        name = receipt_name(operation_id)
        with self._folder(check=False) as folder:
            for segment in self._segments(folder):
                assert folder is not None
                with folder.below(segment) as inner:
                    data = read(inner, name, RECEIPT_BYTES_MAX)
                if data is not None:
                    return data
        return None

    def manifests(self) -> list[ArchiveManifest]:
        """The chain, checked. Raises `ReceiptInvalid` where it is broken."""
        chain: list[ArchiveManifest] = []
        with self._folder() as folder:
            for segment in self._segments(folder):
                assert folder is not None
                chain.append(self._manifest(folder, segment))
        previous = None
        for number, manifest in enumerate(chain, 1):
            if (manifest.number, manifest.previous) != (number, previous):
                file = f"{ARCHIVE}/{segment_name(number)}"
                raise ReceiptInvalid(file=file, reason="the chain of manifests is broken")
            previous = manifest.revision
        return chain

    def _manifest(self, folder: CacheFolder, segment: str) -> ArchiveManifest:
        file = f"{ARCHIVE}/{segment}/{MANIFEST}"
        with folder.below(segment) as inner:
            data = read(inner, MANIFEST, MANIFEST_BYTES_MAX)
        if data is None:
            raise ReceiptInvalid(file=file, reason="it is not there")
        try:
            return decode_manifest(data)
        except ContractInvalid as error:
            raise ReceiptInvalid(file=file, reason=str(error.fields["reason"])) from error

    def _segments(self, folder: CacheFolder | None) -> list[str]:
        if folder is None:
            return []
        found = [
            name
            for name, kind in folder.entries()
            if kind is Kind.FOLDER and name.isdigit() and len(name) == 6
        ]
        return sorted(found)

    # -- moving

    def propose(self, wal: Wal, acknowledged: frozenset[str]) -> Proposed:
        """What would be moved now: every finished receipt, every acknowledged restoration."""
        chain = self.manifests()
        rows: list[Archived] = []
        for receipt in self.store.every():
            if receipt.status == "applying":
                continue
            data = self.store.raw(receipt.operation_id) or b""
            rows.append(
                Archived(
                    operation_id=receipt.operation_id,
                    status=receipt.status,
                    sha256=bytes_digest(data),
                )
            )
        restored = [
            it.transaction_id
            for it in wal.live()
            if it.phase == "restored" and it.transaction_id in acknowledged
        ]
        previous = chain[-1].revision if chain else None
        return Proposed(manifest_of(len(chain) + 1, previous, rows, restored), len(chain))

    def move(self, reviewed: str, wal: Wal, acknowledged: frozenset[str]) -> Proposed:
        """Move what was reviewed, after what an interrupted step had left.

        Raises `PlanChanged` when something else would be moved now.
        """
        for manifest in self.manifests():
            self._carry_all(manifest, wal)
            if manifest.revision == reviewed:
                # This very step was interrupted; it is complete now.
                return Proposed(manifest, manifest.number)
        proposed = self.propose(wal, acknowledged)
        if proposed.manifest.revision != reviewed:
            raise PlanChanged(found=proposed.manifest.revision, expected=reviewed)
        if not proposed.manifest.receipts and not proposed.manifest.transaction_ids:
            return proposed
        if proposed.manifest.number > SEGMENTS_MAX:
            raise ReceiptInvalid(file=ARCHIVE, reason="it has no room for a segment")
        self._begin(proposed.manifest)
        self._carry_all(proposed.manifest, wal)
        return Proposed(proposed.manifest, proposed.manifest.number)

    def _begin(self, manifest: ArchiveManifest) -> None:
        """The manifest first: in a directory that has its name only when it is complete."""
        name = segment_name(manifest.number)
        with self.files.folder("") as root:
            if root.look(ARCHIVE) is None:
                make_private(root, ARCHIVE)
        with self._folder() as folder:
            assert folder is not None
            temporary = f".{name}.tmp"
            with self.probe(Effect.RETENTION_ARCHIVE):
                if folder.look(temporary) is None:
                    make_private(folder, temporary)
                with folder.below(temporary) as inner:
                    clear_temporaries(
                        inner, MANIFEST.__eq__, user=self.files.user, probe=self.probe
                    )
                    put(
                        inner,
                        MANIFEST,
                        encode_manifest(manifest),
                        effect=Effect.RETENTION_ARCHIVE,
                        probe=self.probe,
                        nonce=self.nonces(),
                    )
                folder.move(temporary, name)
                folder.sync()

    def _carry_all(self, manifest: ArchiveManifest, wal: Wal) -> None:
        with self._folder() as folder, suppress(NameMissing):
            assert folder is not None
            with (
                self.files.folder(RECEIPTS) as source,
                folder.below(segment_name(manifest.number)) as segment,
            ):
                for row in manifest.receipts:
                    self._carry(row, source, segment)
                segment.sync()
                source.sync()
        listed = set(manifest.transaction_ids)
        buried = [it for it in wal.live() if it.transaction_id in listed]
        wal.forget(buried)
        if listed:
            # After the log: an acknowledgement of nothing is no harm, the other way round is.
            with self.files.folder("") as root:
                forget_acknowledged(root, listed, probe=self.probe, nonces=self.nonces)

    def _carry(self, row: Archived, source: CacheFolder, segment: CacheFolder) -> None:
        leaf = receipt_name(row.operation_id)
        data = read(source, leaf, RECEIPT_BYTES_MAX)
        if data is None:
            return
        if bytes_digest(data) != row.sha256:
            raise ReceiptInvalid(file=leaf, reason="it is not what was reviewed")
        try:
            with self.probe(Effect.RETENTION_ARCHIVE):
                source.carry(leaf, segment, leaf)
        except (NameMissing, NameTaken):
            return

    @contextmanager
    def _folder(self, *, check: bool = True) -> Iterator[CacheFolder | None]:
        with self.files.folder("") as root:
            try:
                opened = root.below(ARCHIVE)
                with opened as folder:
                    if check:
                        check_private(folder.itself(), ARCHIVE, self.files.user)
                    yield folder
            except NameMissing:
                yield None
            except FilesError as error:
                raise ReceiptInvalid(file=ARCHIVE, reason=error.reason) from error
