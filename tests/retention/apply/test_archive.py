"""The archive: replay of what was moved, its chain, interrupted steps, and room in the receipts."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path

import pytest

from dpone.contracts.cache_layout import durable, sealed_digest
from dpone.contracts.errors import DponeError
from dpone.contracts.errors_retention import PlanChanged, ReceiptInvalid
from dpone.contracts.retention_receipt import receipt_name
from dpone.retention import capacity, receipts
from faultinject.deletion_files import Stop, WatchedCache, acting_at, stop_at
from faultinject.deletion_worlds import OTHER_REVIEW, REVIEW, World
from tests.retention.apply.boundaries import ABORTED, BOUNDARIES, stopped
from tests.retention.caches import call

ARCHIVE = ".retention-apply-archive"
FULL = "DPONE_DEPLOYMENT_CACHE_GC_CAPACITY_EXHAUSTED"


def _two(made: World) -> list[tuple[str, str, bytes]]:
    """Two finished operations: plan, review and receipt of each."""
    found = []
    for review, given in ((REVIEW, made.candidates[:1]), (OTHER_REVIEW, ())):
        plan = made.plan(given=given).sha256
        assert made.apply(plan, review, given=given).code == "committed"
        raw = made.raw(plan, review)
        assert raw is not None
        found.append((plan, review, raw))
    return found


def _archive(made: World, cache: WatchedCache | None = None, digest: str = "") -> str:
    digest = digest or made.desk().archive_receipts("", apply=False).archive_sha256
    made.desk(cache).archive_receipts(digest, apply=True)
    return digest


def test_an_archived_operation_is_replayed_before_anything_is_planned(made: World) -> None:
    done = _two(made)
    _archive(made)
    assert list(made.receipts.iterdir()) == []
    for plan, review, raw in done:
        ended = made.apply(plan, review)
        assert (ended.code, ended.replayed) == ("committed", True)
        assert made.desk().receipt(ended.receipt.operation_id if ended.receipt else "") == raw
    listed = made.desk().receipts()
    assert [row.archived for row in listed.receipts] == [True, True]


def test_an_archived_abort_stays_one(made: World) -> None:
    plan = made.plan().sha256
    stopped(made, plan, "committed")
    made.activate("yet another")
    assert made.apply(plan).code == ABORTED
    _archive(made)
    assert made.apply(plan).code == ABORTED


def test_only_what_was_reviewed_is_moved(made: World) -> None:
    _two(made)
    digest = made.desk().archive_receipts("", apply=False).archive_sha256
    made.rebuild(made.candidates[0])
    assert made.apply(made.plan().sha256).code == "committed"
    with pytest.raises(PlanChanged):
        _archive(made, digest=digest)
    assert not (made.root / ARCHIVE).exists()


def test_a_receipt_that_changes_after_its_step_began_is_not_moved(made: World) -> None:
    ((plan, review, raw), *_) = _two(made)
    digest = made.desk().archive_receipts("", apply=False).archive_sha256
    with pytest.raises(Stop):
        _archive(
            made, WatchedCache(made.root, stop_at("carry", ".retention-apply-receipts/")), digest
        )
    receipt = made.receipt(plan, review)
    assert receipt is not None
    path = made.receipts / receipt_name(receipt.operation_id)
    path.write_bytes(raw + b" ")
    with pytest.raises(ReceiptInvalid, match="not what was reviewed"):
        _archive(made, digest=digest)
    assert path.read_bytes() == raw + b" "
    path.write_bytes(raw)
    _archive(made, digest=digest)
    assert list(made.receipts.iterdir()) == []


def test_what_is_still_applying_stays_among_the_receipts(made: World) -> None:
    plan = made.plan().sha256
    stopped(made, plan, "committed")
    proposed = made.desk().archive_receipts("", apply=False)
    assert proposed.receipts == 0
    assert made.apply(plan).code == "committed"


def test_the_archive_of_a_cache_without_receipts_is_no_accident(made: World) -> None:
    digest = made.desk().archive_receipts("", apply=False).archive_sha256
    said = call(
        *("airflow", "cache-retention-archive", "--cache-root", made.root),
        *("--expected-archive-sha256", digest, "--apply", "--format", "json"),
    )
    assert said.code == 0


@pytest.mark.parametrize("at", range(1, 40))
def test_an_interrupted_step_is_continued_by_the_same_command(made: World, at: int) -> None:
    done = _two(made)
    digest = made.desk().archive_receipts("", apply=False).archive_sha256
    left = at

    def watch(said: str, path: str) -> None:
        nonlocal left
        if said in ("mkdir", "set_mode", "create", "replace", "carry", "sync", "append"):
            left -= 1
            if left == 0:
                raise Stop

    try:
        _archive(made, WatchedCache(made.root, watch), digest)
    except Stop:
        # At every moment a receipt is in one of the two places.
        for plan, review, _ in done:
            ended = made.apply(plan, review)
            assert (ended.code, ended.replayed) == ("committed", True)
        _archive(made, digest=digest)
    listed = made.desk().receipts()
    assert [row.archived for row in listed.receipts] == [True, True]
    assert listed.blocker is None
    assert [path.name for path in (made.root / ARCHIVE).iterdir()] == ["000001"]
    names = sorted(path.name for path in (made.root / ARCHIVE / "000001").iterdir())
    assert len(names) == 3


def test_a_missing_segment_breaks_the_chain_and_is_named(made: World) -> None:
    _two(made)
    _archive(made)
    made.rebuild(made.candidates[0])
    assert made.apply(made.plan().sha256).code == "committed"
    _archive(made)
    first = made.root / ARCHIVE / "000001"
    first.rename(made.root.parent / "taken")
    assert "chain" in (made.desk().receipts().blocker or "")
    with pytest.raises(ReceiptInvalid):
        made.desk().archive_receipts("", apply=False)


def test_a_changed_manifest_is_named(made: World) -> None:
    _two(made)
    _archive(made)
    path = made.root / ARCHIVE / "000001" / "manifest.json"
    value = json.loads(path.read_text())
    value["number"] = 2
    path.write_text(json.dumps(value))
    assert "manifest.json" in (made.desk().receipts().blocker or "")


def test_a_restoration_that_was_acknowledged_is_archived_with_its_operation(made: World) -> None:
    plan = made.plan().sha256
    stopped(made, plan, "detached")
    made.activate("yet another")
    assert made.apply(plan).code == ABORTED
    assert made.desk().archive_receipts("", apply=False).transactions == 0
    made.desk().acknowledge(apply=True)
    assert made.desk().archive_receipts("", apply=False).transactions == 1
    _archive(made)
    assert made.phases() == []


@pytest.mark.parametrize(
    ("what", "value", "words"),
    [
        ("FILES_MAX", 1, "there are 1 receipts"),
        ("TOTAL_BYTES_MAX", 2_000, "the receipts hold"),
        ("ENTRIES_MAX", 2, "the log holds"),
        ("RECEIPT_BYTES_MAX", 1_000, "its receipt could grow"),
    ],
)
def test_what_has_no_room_is_refused_before_it_begins(
    made: World, monkeypatch: pytest.MonkeyPatch, what: str, value: int, words: str
) -> None:
    given = made.candidates[:1]
    assert made.apply(made.plan(given=given).sha256, given=given).code == "committed"
    for name in (made.candidates[1], made.candidates[2]):
        made.rebuild(name)
    plan = made.plan().sha256
    monkeypatch.setattr(capacity, what, value)
    ended = made.apply(plan, OTHER_REVIEW)
    assert (ended.exit_code, ended.code) == (4, FULL)
    assert words in str(ended.fields)
    assert made.there() == list(made.candidates)
    assert (made.raw(plan, OTHER_REVIEW), made.phases()) == (None, [])
    monkeypatch.undo()
    assert made.apply(plan, OTHER_REVIEW).code == "committed"


def _archived(made: World) -> Path:
    """The one receipt in the archive."""
    (path,) = (made.root / ARCHIVE / "000001").glob("sha256-*")
    return path


def _resealed(path: Path, **changes: str) -> None:
    """Change a receipt, and give it the revision that it needs."""
    value = {**json.loads(path.read_text()), **changes}
    del value["receipt_revision"]
    path.write_bytes(durable({**value, "receipt_revision": sealed_digest(value)}))


@pytest.mark.parametrize("how", ["changed", "gone", "torn", "in another segment"])
def test_an_archived_receipt_that_is_not_the_digested_one_is_named(made: World, how: str) -> None:
    plan = made.plan().sha256
    assert made.apply(plan).code == "committed"
    _archive(made)
    path = _archived(made)
    if how == "changed":
        _resealed(path, promoted_by="mallory")
    elif how == "torn":
        path.write_bytes(path.read_bytes()[:-9])
    else:
        to = made.root / ARCHIVE / "000000" if how == "in another segment" else made.root.parent
        to.mkdir(exist_ok=True)
        path.rename(to / path.name)
    if how == "in another segment":
        # Nobody digested it there.
        assert made.apply(plan).code == ReceiptInvalid.code
        return
    listed = made.desk().receipts()
    assert (path.name in (listed.blocker or ""), listed.exit_code) == (True, 4)
    ended = made.apply(plan)
    assert (ended.exit_code, ended.code) == (4, ReceiptInvalid.code)
    assert path.name in str(ended.fields)


def test_receipts_that_a_step_has_not_moved_yet_are_told_once(made: World) -> None:
    done = _two(made)
    with pytest.raises(Stop):
        _archive(made, WatchedCache(made.root, stop_at("after carry", ".retention-apply")))
    listed = made.desk().receipts()
    assert sorted(row.archived for row in listed.receipts) == [False, True]
    assert (listed.blocker, listed.exit_code) == (None, 0)
    assert [made.apply(plan, review).code for plan, review, _ in done] == ["committed"] * 2


def _go_on(made: World, digest: str) -> None:
    _archive(made, digest=digest)


def test_a_step_that_moves_a_receipt_between_two_looks_is_no_loss(made: World) -> None:
    _two(made)
    digest = made.desk().archive_receipts("", apply=False).archive_sha256
    with pytest.raises(Stop):
        _archive(made, WatchedCache(made.root, stop_at("carry", ".retention-apply")), digest)
    # Both are told; then the first is neither in its segment nor any more among the receipts.
    moving = acting_at("hold", lambda: _go_on(made, digest), ".retention-apply-receipts/", 3)
    listed = made.desk(WatchedCache(made.root, moving)).receipts()
    assert (listed.blocker, listed.exit_code) == (None, 0)


def _put_back(made: World, review: str) -> None:
    """A candidate that was detached gets its name back, and a person says so."""
    plan = made.plan().sha256
    death = BOUNDARIES["detached"].watch()
    with pytest.raises(Stop):
        made.apply(plan, review, files=WatchedCache(made.root, death))
    made.activate(f"another than {review}")
    assert made.apply(plan, review).code == ABORTED
    made.desk().acknowledge(apply=True)


@pytest.mark.parametrize("at", range(1, 12))
def test_the_acknowledgements_of_what_was_archived_go_too(made: World, at: int) -> None:
    _put_back(made, REVIEW)
    digest = made.desk().archive_receipts("", apply=False).archive_sha256
    left = at

    def watch(said: str, _path: str) -> None:
        nonlocal left
        left -= said in ("create", "replace", "carry", "append", "after append", "after replace")
        if left == 0:
            raise Stop

    with suppress(Stop):
        _archive(made, WatchedCache(made.root, watch), digest)
    # What the log still knows is acknowledged still: no plan binds it again.
    assert made.plan().recovery is None
    _archive(made, digest=digest)
    said = json.loads((made.root / ".retention-recovery-ack.json").read_text())
    assert (said["acknowledged_transaction_ids"], made.phases()) == ([], [])
    assert made.desk().acknowledge(apply=False).acknowledged == 0


def test_what_is_not_archived_stays_acknowledged(made: World) -> None:
    _put_back(made, REVIEW)
    _archive(made)
    _put_back(made, OTHER_REVIEW)
    said = json.loads((made.root / ".retention-recovery-ack.json").read_text())
    (kept,) = made.recovery().transactions
    assert said["acknowledged_transaction_ids"] == [kept]
    assert made.plan().recovery is None


def test_an_early_warning_comes_before_the_bound(
    made: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    _two(made)
    monkeypatch.setattr(receipts, "FILES_MAX", 2)
    assert any("archive" in line for line in made.desk().receipts().warnings)


@pytest.mark.parametrize("how", ["large", "link", "folder", "0640", "name", "legacy root"])
def test_a_receipt_directory_that_is_not_as_it_must_be_blocks(
    made: World, tmp_path: Path, how: str
) -> None:
    plan = made.plan().sha256
    stopped(made, plan, "history")
    (path,) = made.receipts.iterdir()
    other = made.receipts / f"sha256-{'a' * 64}.json"
    if how == "large":
        with path.open("r+b") as file:
            file.truncate(8 * 1024 * 1024 + 1)
    elif how == "link":
        path.rename(tmp_path / "moved")
        path.symlink_to(tmp_path / "moved")
    elif how == "folder":
        other.mkdir()
    elif how == "0640":
        path.chmod(0o640)
    elif how == "name":
        other.write_bytes(path.read_bytes())
        other.chmod(0o600)
    else:
        made.receipts.chmod(0o777)
    for review in (REVIEW, OTHER_REVIEW):
        try:
            ended = made.apply(plan, review)
        except DponeError as error:
            raise AssertionError from error
        assert (ended.exit_code, ended.code) == (4, "DPONE_DEPLOYMENT_CACHE_GC_RECEIPT_INVALID")
    assert made.there() == list(made.candidates)


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o2770])
def test_a_trash_that_others_may_enter_blocks(made: World, mode: int) -> None:
    plan = made.plan().sha256
    made.trash.mkdir()
    made.trash.chmod(mode)
    ended = made.apply(plan)
    assert (ended.exit_code, ended.code) == (4, "DPONE_DEPLOYMENT_CACHE_GC_TRASH_UNSAFE")
    assert made.there() == list(made.candidates)
    assert (made.raw(plan), made.log.exists()) == (None, False)
    made.trash.chmod(0o2700)
    assert made.apply(plan).code == "committed"


def test_a_trash_that_is_a_link_blocks(made: World, tmp_path: Path) -> None:
    plan = made.plan().sha256
    made.trash.symlink_to(tmp_path)
    ended = made.apply(plan)
    assert ended.code == "DPONE_DEPLOYMENT_CACHE_GC_TRASH_UNSAFE"


def test_a_step_that_moves_nothing_twice_says_so(made: World) -> None:
    _two(made)
    digest = _archive(made)
    before = sorted(str(path) for path in made.root.rglob("*"))
    _archive(made, digest=digest)
    assert sorted(str(path) for path in made.root.rglob("*")) == before
    with pytest.raises(Stop):
        made.desk(WatchedCache(made.root, stop_at("look"))).receipts()
