"""`dpone journal`: every command on a real journal, in both formats."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from dpone.cli.main import main
from dpone.contracts import journal_report
from dpone.contracts.codec import decode

_ROUTE = """
schema: dpone.route.v1
route: r
source: {csv: "in.csv"}
target: {sqlite: w.db, table: t}
strategy: {replace_partition: [month]}
partition: {column: month}
ordered: true
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "in.csv").write_text("month,day\n1,1\n1,2\n2,1\n")
    (tmp_path / "r.yaml").write_text(_ROUTE)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def _dpone(*argv: str) -> int:
    with pytest.raises(SystemExit) as done:
        main(list(argv))
    code = done.value.code
    return code if isinstance(code, int) else 0


@pytest.fixture
def dpone(capsys: pytest.CaptureFixture[str]) -> Any:
    def run(*argv: str, exits: int = 0) -> str:
        capsys.readouterr()
        code = _dpone(*argv)
        said = capsys.readouterr()
        assert code == exits, said.out + said.err
        assert "Traceback" not in said.out + said.err
        return said.out + (said.err if exits else "")

    return run


def _rows(dpone: Any, *more: str) -> journal_report.JournalList:
    return decode(dpone("journal", "list", "--format", "json", *more), journal_report.JournalList)


def test_list_pages_by_cursor_and_filters(project: Path, dpone: Any) -> None:
    assert "no operation" in dpone("journal", "list")
    assert not (project / ".dpone").exists()
    dpone("run", "r.yaml")
    first = _rows(dpone, "--limit", "1")
    second = _rows(dpone, "--limit", "1", "--after", first.next)
    both = {row.partition for page in (first, second) for row in page.operations}
    assert both == {'{"column":"month","value":"1"}', '{"column":"month","value":"2"}'}
    assert _rows(dpone, "--state", "COMMITTING").operations == ()
    assert _rows(dpone, "--route", "other").operations == ()
    assert "COMPLETE" in dpone("journal", "list")


def test_show_draws_the_path_and_explain_says_what_is_known(project: Path, dpone: Any) -> None:
    dpone("run", "r.yaml")
    ident = _rows(dpone).operations[0].operation_id
    text = dpone("journal", "show", ident[:20])
    events = ("begin", "fence_ready", "commit_started", "commit_acknowledged", "obligations_met")
    assert all(event in text for event in events)
    shown = dpone("journal", "show", ident, "--format", "json")
    assert decode(shown, journal_report.JournalShow).done == ("checkpoint",)
    said = decode(
        dpone("journal", "explain", ident, "--format", "json"), journal_report.Explanation
    )
    assert (said.state, said.fence, said.unknown) == ("COMPLETE", "committed", ())
    assert "Nothing." in dpone("journal", "explain", ident)


def test_what_is_not_there_or_not_unique_is_said(project: Path, dpone: Any) -> None:
    dpone("run", "r.yaml")
    assert "DPONE_JOURNAL_NOT_FOUND" in dpone("journal", "show", "sha256:zz", exits=1)
    assert "DPONE_JOURNAL_AMBIGUOUS" in dpone("journal", "show", "sha256:", exits=1)


def test_reconcile_of_a_finished_operation_changes_nothing(project: Path, dpone: Any) -> None:
    dpone("run", "r.yaml")
    ident = _rows(dpone).operations[0].operation_id
    before = (project / ".dpone/journal.db").read_bytes()
    dpone("journal", "reconcile", ident)
    assert (project / ".dpone/journal.db").read_bytes() == before


def test_a_restored_target_is_checked_marked_answered_and_reloaded(
    project: Path, dpone: Any
) -> None:
    dpone("run", "r.yaml", "--partition", "month=1")
    shutil.copyfile(project / "w.db", project / "older.db")
    dpone("run", "r.yaml")
    (project / "w.db").write_bytes((project / "older.db").read_bytes())
    assert "target_diverged" in dpone("journal", "check", exits=4)
    said = dpone("run", "r.yaml", exits=4)
    assert "DPONE_TARGET_COMMIT_DIVERGED" in said
    lost = next(row for row in _rows(dpone).operations if row.diverged)
    answer = ("--as", "reload", "--expect-version", str(lost.version))
    who = ("--operator", "me", "--why", "restored from the night")
    dpone("journal", "resolve", lost.operation_id, *answer, *who)
    said = dpone("run", "r.yaml", "--partition", "month=2", exits=1)
    assert "DPONE_TARGET_COMMIT_ANSWERED" in said
    dpone("run", "r.yaml", "--partition", "month=2", "--revision", "2")
    dpone("journal", "check")
    # The schedule goes on without an edit: the newest revision is what the part stands for.
    assert dpone("run", "r.yaml").count("already loaded") == 3


def test_another_target_than_the_loads_is_no_loss(
    project: Path, dpone: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "r.yaml").write_text(_ROUTE.replace("sqlite: w.db", "sqlite: warehouse"))
    (project / "dpone.toml").write_text(
        '[connections.warehouse]\nkind = "sqlite"\ndsn = "w.db"\n', "utf-8"
    )
    part = ("run", "r.yaml", "--partition", "month=1")
    dpone(*part)
    monkeypatch.setenv("DPONE_CONNECTION_WAREHOUSE", "sqlite:other.db")
    said = dpone(*part, exits=4)
    assert "DPONE_TARGET_COMMIT_DIVERGED" in said
    assert said.index("leads to the target of that load") < said.index("dpone journal resolve")
    monkeypatch.delenv("DPONE_CONNECTION_WAREHOUSE")
    assert "was found absent" in dpone(*part, exits=4)
    assert dpone("journal", "check") == "1 operations asked, 0 findings.\n"
    (row,) = _rows(dpone).operations
    answer = ("--as", "accept-loss", "--expect-version", str(row.version))
    who = ("--operator", "me", "--why", "another connection")
    assert "healed" in dpone("journal", "resolve", row.operation_id, *answer, *who)
    assert "already loaded" in dpone(*part)


def test_a_process_that_is_not_the_manifests_route_is_refused(project: Path, dpone: Any) -> None:
    said = dpone("run", "r.yaml", "--process", "another", exits=2)
    assert "it is the route r, and the process another was asked for" in said
    assert not (project / "w.db").exists()
    dpone("run", "r.yaml", "--process", "r")


def test_resolve_refuses_what_it_must(project: Path, dpone: Any) -> None:
    dpone("run", "r.yaml", "--partition", "month=1")
    row = _rows(dpone).operations[0]
    who = ("--operator", "me", "--why", "because")
    stale = ("--as", "committed", "--expect-version", "1")
    said = dpone("journal", "resolve", row.operation_id, *stale, *who, exits=1)
    assert "DPONE_JOURNAL_VERSION_CONFLICT" in said
    now = ("--expect-version", str(row.version))
    said = dpone("journal", "resolve", row.operation_id, "--as", "committed", *now, *who, exits=4)
    assert "DPONE_JOURNAL_ANSWER_REFUSED" in said
    said = dpone("journal", "resolve", row.operation_id, "--as", "maybe", *now, *who, exits=2)
    assert "DPONE_JOURNAL_ANSWER_UNKNOWN" in said
    blank = ("--operator", " ", "--why", "")
    said = dpone("journal", "resolve", row.operation_id, "--as", "committed", *now, *blank, exits=4)
    assert "an operator and a reason" in said


def test_prune_plans_first_and_a_pruned_operation_is_still_loaded(
    project: Path, dpone: Any
) -> None:
    dpone("run", "r.yaml")
    assert "Nothing was written" in dpone("journal", "prune", "--older-than", "0")
    assert not any(row.pruned for row in _rows(dpone).operations)
    assert "2 pruned" in dpone("journal", "prune", "--older-than", "0", "--apply")
    assert "details pruned" in dpone("run", "r.yaml")
    assert dpone("journal", "check") == "2 operations asked, 0 findings.\n"


def test_below_a_floor_everybody_is_answered_expired(project: Path, dpone: Any) -> None:
    dpone("run", "r.yaml")
    raise_to = ("journal", "prune", "--older-than", "0", "--route", "r", "--floor", "2")
    assert "1 below_floor" in dpone(*raise_to)
    assert "1 removed" in dpone(*raise_to, "--apply")
    said = dpone("run", "r.yaml", exits=1)
    assert "DPONE_TARGET_COMMIT_EXPIRED" in said


def test_adopt_counts_first_then_gives_every_row_a_new_version(project: Path, dpone: Any) -> None:
    dpone("run", "r.yaml")
    versions = {row.operation_id: row.version for row in _rows(dpone).operations}
    who = ("--operator", "me", "--why", "restored")
    assert "Nothing was written" in dpone("journal", "adopt", *who)
    dpone("journal", "adopt", *who, "--apply")
    after = {row.operation_id: row.version for row in _rows(dpone).operations}
    assert after == {ident: version + 1 for ident, version in versions.items()}
    assert "already loaded" in dpone("run", "r.yaml")


def test_adopt_target_accepts_a_moved_file(project: Path, dpone: Any) -> None:
    dpone("run", "r.yaml")
    shutil.copyfile(project / "w.db", project / "moved.db")
    (project / "w.db").unlink()
    (project / "moved.db").rename(project / "w.db")
    assert "incarnation_changed" in dpone("journal", "check", exits=4)
    assert "another incarnation" in dpone("run", "r.yaml")
    said = dpone("journal", "adopt", "--target", "--operator", "me", "--why", "moved", "--apply")
    assert "2 adopted" in said
    dpone("journal", "check")


def test_a_guard_is_answered_by_hand(project: Path, dpone: Any) -> None:
    (project / "g.yaml").write_text(
        'schema: dpone.route.v1\nroute: g\nsource: {csv: "in.csv"}\n'
        "target: {csvdir: out, table: t}\nstrategy: append\n"
    )
    dpone("run", "g.yaml")
    ident = json.loads(dpone("run", "g.yaml", "--format", "json"))["operations"][0]["operation_id"]
    who = ("--operator", "me", "--why", "compared", "--expect-version", "0")
    said = dpone("journal", "resolve", ident, "--guard", "--as", "committed", *who, exits=1)
    assert "DPONE_JOURNAL_NOT_FOUND" in said


def test_a_floor_stands_also_where_nothing_lies_below_it_yet(project: Path, dpone: Any) -> None:
    (project / "in.csv").write_text("month,day\n5,1\n")
    dpone("run", "r.yaml")
    raise_to = ("journal", "prune", "--older-than", "0", "--route", "r", "--floor", "4")
    assert "1 floors, 0 below_floor, 0 removed" in dpone(*raise_to, "--apply")
    (project / "in.csv").write_text("month,day\n3,1\n")
    assert "DPONE_TARGET_COMMIT_EXPIRED" in dpone("run", "r.yaml", exits=1)


@pytest.mark.parametrize(
    "more", [("--route", "r", "--floor", "banana"), ("--route", "x", "--floor", "2")]
)
def test_a_floor_that_makes_no_sense_is_refused(
    project: Path, dpone: Any, more: tuple[str, ...]
) -> None:
    dpone("run", "r.yaml")
    said = dpone("journal", "prune", "--older-than", "0", *more, "--apply", exits=2)
    assert "DPONE_JOURNAL_FLOOR_INVALID" in said
    assert "already loaded" in dpone("run", "r.yaml")


def test_what_lies_below_a_floor_is_no_divergence(project: Path, dpone: Any) -> None:
    dpone("run", "r.yaml")
    floor = ("journal", "prune", "--older-than", "0", "--route", "r", "--floor", "3", "--apply")
    assert "2 removed" in dpone(*floor)
    assert "0 findings" in dpone("journal", "check")
    said = dpone("journal", "adopt", "--target", "--operator", "me", "--why", "look", "--apply")
    assert "0 diverged" in said
    assert "2 expired" in said


def test_after_a_prune_another_intent_is_still_refused(project: Path, dpone: Any) -> None:
    dpone("run", "r.yaml")
    dpone("journal", "prune", "--older-than", "0", "--apply")
    (project / "in.csv").write_text("month,day\n1,1\n1,2\n2,1\n1,9\n")
    assert "DPONE_TARGET_COMMIT_INTENT_MISMATCH" in dpone("run", "r.yaml", exits=1)


def test_an_answered_row_stays_closed_and_is_shown(project: Path, dpone: Any) -> None:
    dpone("run", "r.yaml", "--partition", "month=1")
    (project / "w.db").unlink()
    dpone("run", "r.yaml", "--partition", "month=1", exits=4)
    row = _rows(dpone).operations[0]
    assert "(diverged)" in dpone("journal", "list")
    assert "does not show it" in dpone("journal", "explain", row.operation_id)
    answer = ("--as", "accept-loss", "--expect-version", str(row.version))
    dpone("journal", "resolve", row.operation_id, *answer, "--operator", "me", "--why", "gone")
    assert "(answered: accept-loss)" in dpone("journal", "list")
    dpone("journal", "check")
    dpone("journal", "adopt", "--target", "--operator", "me", "--why", "moved", "--apply")
    dpone("journal", "check")


def test_adopting_what_does_not_hold_is_for_a_person_to_look_at(project: Path, dpone: Any) -> None:
    dpone("run", "r.yaml")
    (project / "w.db").unlink()
    adopt = ("journal", "adopt", "--target", "--operator", "me", "--why", "x", "--apply")
    assert "2 diverged" in dpone(*adopt, exits=4)
