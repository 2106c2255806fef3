"""What was kept is named however the run ends, and of two versions the later one is told."""

from __future__ import annotations

import json
import os
import pickle
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from dpone.authoring.publish import Publisher, Unpublished
from dpone.authoring.report import error_report
from dpone.contracts.authoring import Status, sha256_of
from dpone.contracts.effects import Effect
from dpone.contracts.errors import DponeError
from dpone.contracts.errors_authoring import (
    RecoveryRequired,
    SourceChanged,
    TransactionInProgress,
)
from dpone.contracts.publication import Change, FileOutcome, Publication, PublishOutcome
from dpone.contracts.transaction import Phase
from dpone.ports.probe import quiet
from faultinject.editing_process import Injected
from faultinject.writing import NEW, OLD
from tests.authoring.commands.test_after_a_stop import ITEMS, stopped
from tests.authoring.commands.test_after_a_stop import NEW as INIT
from tests.authoring.confined.studio import CATALOG, JOURNAL, At, Single, codes
from tests.authoring.confined.test_failed_syncs import saved
from tests.authoring.confined.test_journals import (
    EARLIER,
    KEPT,
    OTHER,
    SIDE,
    earlier_journal,
    exchanged,
)
from tests.loading.project import Project, Said

FOLDER, _, LEAF = CATALOG.rpartition("/")
DAG = ("init", "dag", "sales/daily", "--apply")


def written_late(single: Single) -> None:
    """A change that is in force, and whose earlier file somebody wrote to since."""
    exchanged(single, Phase.COMMITTED)
    (single.root / SIDE).write_bytes(OLD + OTHER)


def kept_in(root: Path) -> set[str]:
    return {path.name for path in root.rglob(".dpone-recovery-*")}


# -- refused after something was kept --------------------------------------------------------------


def test_a_refused_replacement_names_what_it_kept(single: Single) -> None:
    written_late(single)
    with pytest.raises(SourceChanged) as caught:
        single.replace(b"third\n", expected=OLD)
    report = caught.value.report()
    assert caught.value.kept == (KEPT,)
    assert report["fields"]["kept"] == KEPT
    assert report["known"].startswith("It keeps what its writer made of it. Before that, this run")
    assert KEPT in report["known"]
    again = pickle.loads(pickle.dumps(caught.value))
    assert (again.kept, again.report()) == ((KEPT,), report)


def test_a_replacement_of_what_somebody_removed_names_what_it_kept(single: Single) -> None:
    written_late(single)
    single.path.unlink()
    with pytest.raises(RecoveryRequired) as caught:
        single.replace()
    assert caught.value.fields["recovery_name"] == KEPT


def test_a_name_in_a_folder_is_told_with_its_folder(place: Path) -> None:
    (place / "deep").mkdir()
    single = Single(place / "deep")
    written_late(single)
    above = Single(place)
    with pytest.raises(SourceChanged) as caught:
        above.confined().replace_file_if_digest(
            "deep/f.yaml", expected_sha256=sha256_of(OLD), desired=b"third\n"
        )
    assert caught.value.kept == (f"deep/{KEPT}",)


def test_a_refused_removal_names_what_it_kept(single: Single) -> None:
    written_late(single)
    owned = single.owned()
    rival = At("authoring.record:before", lambda: (single.root / JOURNAL).mkdir())
    with pytest.raises(TransactionInProgress) as caught:
        single.confined(rival).remove_file_if_owned(owned)
    assert caught.value.kept == (KEPT,)
    assert KEPT in caught.value.report()["known"]


def test_what_two_recoveries_kept_is_all_told(single: Single) -> None:
    """The one that came first kept bytes, and so does the change itself."""
    written_late(single)
    with ExitStack() as stack:

        def hold() -> None:
            stack.enter_context(single.path.open("ab"))

        probe = At("authoring.exchange:before", hold)
        outcome = single.replace(b"third\n", expected=NEW, probe=probe)
    assert outcome.committed
    assert outcome.also_kept == (KEPT,)
    assert {outcome.recovery_name, KEPT} == kept_in(single.root)


def test_what_concluding_kept_is_named_by_the_refusal_of_another_plan(single: Single) -> None:
    """The files beside are recovered, and then the root's receipt is none."""
    written_late(single)
    (single.root / ".root.yaml.dpone-publish.json").write_bytes(b"{")
    (single.root / "root.yaml").write_bytes(OLD)
    plan = Publication(
        root=Change(path="root.yaml", before=OLD, after=NEW),
        edits=(Change(path="f.yaml", before=NEW, after=OTHER),),
    )
    with pytest.raises(Unpublished) as caught:
        Publisher(single.confined()).publish(plan)
    error, outcome = caught.value.error, caught.value.outcome
    assert isinstance(error, RecoveryRequired)
    assert (outcome.status, outcome.cleanup_required) == (Status.RECOVERY_REQUIRED, True)
    told = {*outcome.recovery_names, str(error.fields["recovery_name"])}
    assert told == kept_in(single.root)
    assert KEPT in error.report()["known"]
    assert Publisher(single.confined()).publish(plan).status is Status.COMMITTED


def names_told(said: Said, root: Path) -> bool:
    return all(name in said.out + said.err for name in kept_in(root))


@pytest.mark.parametrize("form", ["text", "json"])
@pytest.mark.parametrize("way", ["conflict", "torn receipt", "no draft"])
def test_a_command_that_is_refused_names_what_it_kept(
    authored: Project, way: str, form: str
) -> None:
    command = (*INIT, "--strategy", "append", "--apply") if way == "conflict" else DAG
    with (authored.root / CATALOG).open("r+b"):
        stopped(authored, "authoring.commit:before", *INIT)
        if way == "torn receipt":
            (authored.root / FOLDER / f".{LEAF}.dpone-publish.json").write_bytes(b"{")
        if way == "no draft":
            (authored.root / FOLDER / f".{LEAF}.dpone-publish.json.draft").mkdir()
        said = authored.call(*command, "--format", form)
    assert said.code in (1, 4)
    assert kept_in(authored.root)
    assert names_told(said, authored.root), said.out + said.err


def test_recover_names_what_it_kept_when_the_receipt_is_none(authored: Project) -> None:
    with (authored.root / CATALOG).open("r+b"):
        stopped(authored, "authoring.commit:before", *INIT)
        (authored.root / FOLDER / f".{LEAF}.dpone-publish.json").write_bytes(b"{")
        said = authored.call("authoring", "recover", CATALOG, "--apply", "--format", "json")
    assert said.code == 4
    assert len(kept_in(authored.root)) == 2
    assert names_told(said, authored.root), said.out


def test_a_plan_that_conflicts_says_what_was_taken_up_before(authored: Project) -> None:
    """ "No file was changed" is of the command itself; the interrupted change was undone."""
    with (authored.root / CATALOG).open("r+b"):
        stopped(authored, "authoring.commit:before", *INIT)
        said = authored.call(*INIT, "--strategy", "append", "--apply", "--format", "json")
    assert "Before that, this run took up an interrupted change" in said.report["known"]


def test_an_apply_that_is_refused_names_what_its_plan_kept(authored: Project) -> None:
    """The interrupted change is concluded before the plan, and the catalog refuses the apply."""
    stopped(authored, "authoring.publish:after", *INIT)
    with (authored.root / ITEMS).open("r+b"):
        (authored.root / CATALOG).chmod(0o444)
        said = authored.call(*INIT, "--strategy", "append", "--apply", "--format", "json")
    assert (said.code, codes(said)) == (4, ["DPONE_AUTHORING_READ_ONLY"])
    assert len(kept_in(authored.root)) == 1
    assert names_told(said, authored.root), said.out


def test_what_is_said_of_the_whole_change_stays_true_beside_it(authored: Project) -> None:
    """The change of the catalog is refused after new files were made: these are undone."""

    def interrupted() -> None:
        folder = Single.__new__(Single)
        folder.root, folder.path = authored.root / FOLDER, authored.root / CATALOG
        (folder.root / f".{LEAF}.dpone-transaction.json.draft").mkdir()

    said = authored.call(
        *INIT, "--apply", "--format", "json", probe=At("authoring.publish:after", interrupted)
    )
    assert said.code == 4
    assert not (authored.root / ITEMS).exists() or ITEMS in said.out
    error = said.report["errors"][0]
    assert error["code"] == RecoveryRequired.code
    assert names_told(said, authored.root)
    outcome = PublishOutcome(
        status=Status.ROLLED_BACK,
        plan_id="sha256:" + "0" * 64,
        files=(FileOutcome(path=ITEMS, action="rolled_back"),),
    )
    refused = TransactionInProgress(path=CATALOG).after(kept=[f"{FOLDER}/{KEPT}"])
    words = error_report(refused, outcome).known
    assert words.startswith("What this run had changed is undone. Before that, this run took up")
    assert KEPT in words


def test_a_stranger_s_file_that_is_caught_twice_is_told(single: Single) -> None:
    """A removal meets two files of others: both stay, and the one that moved is told."""
    owned = single.owned()

    def one() -> None:
        saved(single)

    def two() -> None:
        single.path.write_bytes(OTHER)

    inner = At("authoring.quarantine:before", one)
    outer = At("authoring.quarantine:after", two)

    @contextmanager
    def both(effect: Effect, /) -> Iterator[None]:
        with outer(effect), inner(effect):
            yield

    outcome = single.confined(both).remove_file_if_owned(owned)
    assert (outcome.removed, outcome.reason) == (False, "kept")
    assert {outcome.recovery_name} == kept_in(single.root)
    assert outcome.newer == "target"


def test_a_withdrawn_file_that_two_others_replace_is_told(single: Single) -> None:
    """While an interrupted publication is undone, its new file meets two files of others."""
    plan = Publication(
        root=Change(path="f.yaml", before=OLD, after=NEW),
        fragments=(Change(path="new.yaml", after=b"new\n"),),
    )
    other = Single.__new__(Single)
    other.root, other.path = single.root, single.root / "new.yaml"

    def die() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Publisher(single.confined(At("authoring.publish:after", die))).publish(plan)
    inner = At("authoring.quarantine:before", lambda: saved(other))
    outer = At("authoring.quarantine:after", lambda: other.path.write_bytes(OTHER))

    @contextmanager
    def both(effect: Effect, /) -> Iterator[None]:
        with outer(effect), inner(effect):
            yield

    concluded = Publisher(single.confined(both)).conclude("f.yaml")
    assert concluded is not None
    assert {file.recovery_name for file in concluded} == kept_in(single.root)
    assert len(kept_in(single.root)) == 1


# -- which of two versions is newer ----------------------------------------------------------------


@pytest.mark.parametrize(("times", "newer"), [((1, 2), "target"), ((2, 1), "recovery")])
@pytest.mark.parametrize("by", ["replace", "remove", "publish"])
def test_a_run_that_recovered_says_which_version_is_newer(
    single: Single, times: tuple[int, int], newer: str, by: str
) -> None:
    owned = single.owned()
    exchanged(single, Phase.PREPARED)
    (single.root / SIDE).write_bytes(OTHER)
    single.path.write_bytes(b"# third\n")
    for path, time in zip((single.root / SIDE, single.path), times, strict=True):
        os.utime(path, ns=(time, time))
    plan = Publication(root=Change(path="f.yaml", before=OLD, after=NEW))
    runs: dict[str, Callable[[], object]] = {
        "replace": single.replace,
        "remove": lambda: single.confined().remove_file_if_owned(owned),
        "publish": lambda: Publisher(single.confined()).publish(plan),
    }
    with pytest.raises(RecoveryRequired) as caught:
        runs[by]()
    assert caught.value.fields["newer"] == newer
    check_two_versions(caught.value, newer)


def check_two_versions(error: DponeError, newer: str) -> None:
    report = error.report()
    last = {"target": "f.yaml was written last.", "recovery": "The kept file was written last."}
    assert report["known"].endswith(last[newer])
    assert "was interrupted" not in json.dumps(report)
    assert "recover" not in report["next"]


@pytest.mark.parametrize(("times", "newer"), [((1, 2), "target"), ((2, 1), "recovery")])
def test_a_journal_of_the_earlier_release_says_it_too(
    single: Single, times: tuple[int, int], newer: str
) -> None:
    single.path.write_bytes(b"# third\n")
    (single.root / EARLIER).write_bytes(OTHER)
    for path, time in zip((single.root / EARLIER, single.path), times, strict=True):
        os.utime(path, ns=(time, time))
    (single.root / JOURNAL).write_bytes(earlier_journal())
    found = single.confined().recover_file_transaction("f.yaml")
    assert (found.status, found.newer) == (Status.RECOVERY_REQUIRED, newer)


def test_a_replacement_that_kept_one_itself_says_which_is_newer(single: Single) -> None:
    probe = Injected(quiet, single.root, "f.yaml", "in_place+rename_save", "twice")
    outcome = single.replace(probe=probe)
    assert outcome.status is Status.RECOVERY_REQUIRED
    assert (outcome.reason, outcome.newer) == ("kept", "target")


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_command_that_kept_one_itself_says_which_is_newer(authored: Project, form: str) -> None:
    probe = Injected(quiet, authored.root, CATALOG, "in_place+rename_save", "twice")
    said = authored.call(*DAG, "--format", form, probe=probe)
    assert said.code == 4
    words = said.out + said.err
    assert f"{CATALOG} was written last." in words
    assert "was interrupted" not in words
    assert names_told(said, authored.root)
    if form == "json":
        artifacts = said.report["unit_of_work"]["recovery_artifacts"]
        assert [name.rpartition("/")[2] for name in artifacts] == [*kept_in(authored.root)]
    # What it advises helps: nothing waits, and the same command goes on.
    assert authored.call(*DAG).code == 0


def test_a_plan_made_anew_says_which_is_newer(authored: Project) -> None:
    """Other options after a stop: the root shows one version of people, its side name another."""
    before = (authored.root / CATALOG).read_bytes()
    stopped(authored, "authoring.exchange:after", *INIT)
    (side,) = (authored.root / FOLDER).glob(".dpone-side-*")
    side.write_bytes(before + b"# one\n")
    os.utime(side, ns=(1, 1))
    beside = authored.root / "swp"
    beside.write_bytes(before + b"# other\n")
    beside.rename(authored.root / CATALOG)
    said = authored.call(*INIT, "--strategy", "append", "--apply", "--format", "json")
    assert (said.code, codes(said)) == (4, [RecoveryRequired.code])
    assert f"{CATALOG} was written last." in said.report["known"]
    assert names_told(said, authored.root)


def test_every_reason_has_an_advice_that_helps() -> None:
    """Where nothing waits any more nobody is sent to recover; a link takes `--keep`."""
    told = {
        reason: RecoveryRequired(path="f.yaml", reason=reason, recovery_name="x").report()
        for reason in ("kept", "kept_target_missing", "unsafe_path", "exchange_lied", "EIO")
    }
    assert "recover" not in told["kept"]["next"] + told["kept_target_missing"]["next"]
    assert "recover f.yaml --keep --apply" in told["unsafe_path"]["next"]
    assert "may be gone" in told["exchange_lied"]["known"]
    assert "recover f.yaml --apply" in told["EIO"]["next"]
    other = RecoveryRequired(path="new.yaml", root="f.yaml", reason="EIO", recovery_name="none")
    assert "recover f.yaml --apply" in other.report()["next"]
