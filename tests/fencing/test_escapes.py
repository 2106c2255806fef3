"""Ways out of the fenced transaction, and what is said when one was found after all."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

import dpone
from certification.places import TARGETS, Resources, TargetPlace
from certification.target import ready, unit
from dpone import wiring
from dpone.adapters.duckdb import transaction as duckdb_transaction
from dpone.adapters.postgres import transaction as postgres_transaction
from dpone.adapters.postgres.transaction import refuse_control
from dpone.contracts.errors_fencing import (
    CommitUnknown,
    TransactionControl,
)
from dpone.contracts.fence import Absent, Committed, Rejected, Sealed, Unknown
from dpone.contracts.journal import State
from dpone.fencing.resolve import Assertion, resolve
from tests.fencing.places import commit

KINDS = ("sqlite", "duckdb", "postgres")
LEADS_BACK = ("connection", "cursor", "execute", "executemany", "executescript", "commit")


# -- what is handed out --------------------------------------------------------------------------


@pytest.mark.parametrize("control", ["ROLLBACK", "COMMIT"])
def test_a_result_cannot_end_the_transaction(place: TargetPlace, control: str) -> None:
    def change(tx: Any) -> None:
        place.write(tx, "before")
        given = tx.execute("SELECT 1")
        (given.execute if hasattr(given, "execute") else given.connection.execute)(control)
        place.write(tx, "after")

    answer, shown, rows = commit(place, change)
    assert isinstance(answer, Rejected)
    assert isinstance(answer.error, AttributeError)
    assert (shown, rows) == (Absent(), [])


def test_what_is_handed_out_leads_nowhere(place: TargetPlace) -> None:
    found: list[str] = []

    def change(tx: Any) -> None:
        insert = "INSERT INTO certified VALUES ({0}, {0})".format(
            "%s" if place.spec.startswith("postgres") else "?"
        )
        for given in (tx.execute("SELECT 1"), tx.executemany(insert, [("1", 1), ("2", 2)])):
            found.extend(name for name in LEADS_BACK if hasattr(given, name))

    assert isinstance(commit(place, change)[0], Committed)
    assert found == []


def test_a_result_is_fetched_in_every_way(place: TargetPlace) -> None:
    seen: list[Any] = []

    def change(tx: Any) -> None:
        for key in ("a", "b", "c"):
            place.write(tx, key)
        sql = "SELECT key FROM certified ORDER BY key"
        seen.append(tx.execute(sql).description[0][0])
        seen.append(tx.execute(sql).fetchone())
        seen.append(tx.execute(sql).fetchmany(2))
        seen.append(tx.execute(sql).fetchall())
        seen.append(list(tx.execute(sql)))

    assert isinstance(commit(place, change)[0], Committed)
    everything = [("a",), ("b",), ("c",)]
    assert seen == ["key", ("a",), everything[:2], everything, everything]


def test_a_copy_leads_nowhere_and_counts(server: TargetPlace) -> None:
    seen: list[Any] = []

    def change(tx: Any) -> None:
        with tx.copy("COPY certified FROM STDIN") as copy:
            copy.write("a\t1\n")
            copy.write_row(("b", 2))
        seen.append(copy.cursor.rowcount)
        seen.extend(name for name in LEADS_BACK[2:] if hasattr(copy, name))
        seen.extend(name for name in LEADS_BACK if hasattr(copy.cursor, name))
        seen.append(hasattr(copy, "connection"))

    answer, _, rows = commit(server, change)
    assert isinstance(answer, Committed)
    assert (seen, rows) == ([2, False], ["a", "b"])


def test_the_next_statement_ends_a_result(duck: TargetPlace) -> None:
    def change(tx: Any) -> None:
        first = tx.execute("SELECT 1")
        tx.execute("SELECT 2")
        first.fetchone()

    answer = commit(duck, change)[0]
    assert isinstance(answer, Rejected)
    assert "a later statement" in answer.cause


# -- what is refused -----------------------------------------------------------------------------

SMUGGLED = {
    "nested comment": "/* /* */ */ COMMIT",
    "deeper": "/* a /* b /* c */ */ d */ ROLLBACK",
    "after a nested comment": "SELECT 1 /* /* */ */; COMMIT",
    "comment ends with a return": "--x\rCOMMIT",
    "no dollar quote": "SELECT $1$; COMMIT; SELECT $1$",
    "plain literal with a backslash": r"SELECT '\'; COMMIT; --'",
    "a name before the quote": r"SELECT nameE'\'; COMMIT; --'",
    "continued escaped literal": "SELECT E'a'\n'\\'' ; COMMIT; --",
    "doubled in an escaped literal": r"SELECT E'a''\'' ; COMMIT; --'",
    "bits": "SELECT b'1'; COMMIT",
    "quoted name": 'SELECT "a""b"; COMMIT',
    "dollar inside a name": "SELECT a$b$; COMMIT; SELECT a$b$",
    "other dollar quote inside": "SELECT $a$ $b$ ' $a$; COMMIT; --'",
    "comment for a space": "ROLLBACK/**/;",
    "operator before a comment": "SELECT 1 +/* x */ 2; COMMIT",
}
HARMLESS = {
    "nested comment": "/* /* COMMIT; */ ; COMMIT */ SELECT 1",
    "literal": "SELECT '; COMMIT; '",
    "doubled": "SELECT 'it''s; COMMIT'",
    "escaped": r"SELECT E'\'; COMMIT; '",
    "continued": "SELECT E'a'\n'\\'; COMMIT; '",
    "dollar quote": "SELECT $$; COMMIT; $$",
    "tagged": "SELECT $a$; COMMIT; $b$ $a$",
    "name": 'SELECT 1 AS "; COMMIT; "',
    "line comment": "SELECT 1 -- ; COMMIT",
    "savepoint": "SAVEPOINT a; ROLLBACK TO a; ROLLBACK WORK TO SAVEPOINT a; RELEASE a",
    "name that begins like one": "SELECT 1 AS committed; SELECT 2 AS end_of_it",
}


@pytest.mark.parametrize("name", SMUGGLED)
def test_no_text_hides_a_statement(name: str) -> None:
    with pytest.raises(TransactionControl):
        refuse_control(SMUGGLED[name])


@pytest.mark.parametrize("name", HARMLESS)
def test_quoted_words_are_no_statements(server: TargetPlace, name: str) -> None:
    answer, _, _ = commit(server, lambda tx: tx.execute(HARMLESS[name]))
    assert isinstance(answer, Committed), answer


@pytest.mark.parametrize("name", SMUGGLED)
def test_nothing_smuggled_is_run(server: TargetPlace, name: str) -> None:
    def change(tx: Any) -> None:
        server.write(tx, "before")
        tx.execute(SMUGGLED[name])

    answer, shown, rows = commit(server, change)
    assert isinstance(answer, Rejected)
    assert isinstance(answer.error, TransactionControl)
    assert (shown, rows) == (Absent(), [])


def test_literals_follow_the_setting_of_the_session(server: TargetPlace) -> None:
    def change(tx: Any) -> None:
        server.write(tx, "before")
        tx.execute("SET LOCAL standard_conforming_strings = off")
        tx.execute("SET LOCAL escape_string_warning = off")
        assert tx.execute(r"SELECT '\'; COMMIT; '").fetchone() == ("'; COMMIT; ",)
        tx.execute(r"SELECT 'a\''; COMMIT")

    answer, shown, rows = commit(server, change)
    assert isinstance(answer, Rejected)
    assert isinstance(answer.error, TransactionControl)
    assert (shown, rows) == (Absent(), [])


def test_a_long_comment_is_read_in_no_time() -> None:
    started = time.monotonic()
    refuse_control("SELECT E'a'\n" + "-- " * 20_000 + "\n" + " " * 20_000)
    refuse_control("/*" * 20_000)
    refuse_control("INSERT INTO t VALUES " + "(1, 'a''b'), " * 20_000)
    assert time.monotonic() - started < 10


def test_a_statement_is_text(server: TargetPlace) -> None:
    answer = commit(server, lambda tx: tx.execute(b"COMMIT"))[0]
    assert isinstance(answer, Rejected)


# -- what slipped through all the same -----------------------------------------------------------


@pytest.fixture
def unguarded(monkeypatch: pytest.MonkeyPatch) -> None:
    """No statement is refused: only what is checked at the end is left."""
    monkeypatch.setattr(postgres_transaction, "refuse_control", lambda sql, **_: None)
    monkeypatch.setattr(duckdb_transaction, "_FORBIDDEN", frozenset())


ENDINGS = {
    "committed": ("COMMIT",),
    "rolled back": ("ROLLBACK",),
    "committed and begun": ("COMMIT", "BEGIN"),
    "rolled back and begun": ("ROLLBACK", "BEGIN"),
}


# DuckDB tells nothing of a transaction in which a statement failed, so that one way of leaving it
# and beginning another cannot be told from staying; the refusal of control is what stands there.
ESCAPES = [
    (kind, ending, fails)
    for kind in ("duckdb", "postgres")
    for ending in ENDINGS
    for fails in ("", "raises", "statement")
    if (kind, ending, fails) != ("duckdb", "rolled back and begun", "statement")
]


@pytest.mark.usefixtures("unguarded")
@pytest.mark.parametrize(("kind", "ending", "fails"), ESCAPES)
def test_an_ended_transaction_is_never_a_verdict(
    resources: Resources, kind: str, ending: str, fails: str
) -> None:
    with TARGETS[kind](resources) as place:

        def change(tx: Any) -> None:
            place.write(tx, "before")
            for statement in ENDINGS[ending]:
                tx.execute(statement)
            place.write(tx, "after")
            if fails == "statement":
                tx.execute("SELECT * FROM nowhere")
            if fails:
                raise ValueError("the change gave up")

        answer, shown, _ = commit(place, change)
        assert isinstance(answer, Unknown), answer
        # Rows may have stayed: nobody is let in before somebody looked.
        assert isinstance(shown, Unknown), shown
        assert shown.held
        incarnation = place.open().install()
        sealed = place.open().seal(unit(incarnation, 2, "b"))
        assert isinstance(sealed, Unknown)
        assert sealed.held


@pytest.mark.parametrize(
    "spoil",
    ["DELETE FROM dpone_fence", "UPDATE dpone_fence SET kind = 'sealed'"],
    ids=["deleted", "changed"],
)
def test_only_our_own_claim_is_completed(place: TargetPlace, spoil: str) -> None:
    def change(tx: Any) -> None:
        place.write(tx, "x")
        tx.execute(spoil)

    answer, shown, rows = commit(place, change)
    assert isinstance(answer, Unknown)
    assert not isinstance(shown, Committed | Sealed)
    assert rows == []


@pytest.mark.parametrize("kind", ["duckdb", "sqlite"])
def test_a_table_in_the_way_does_not_take_the_fence(resources: Resources, kind: str) -> None:
    with TARGETS[kind](resources) as place:

        def change(tx: Any) -> None:
            place.write(tx, "x")
            fence = "main.dpone_fence" if kind == "sqlite" else "target.main.dpone_fence"
            tx.execute(f"CREATE TEMP TABLE dpone_fence AS SELECT * FROM {fence}")

        answer, shown, rows = commit(place, change)
        assert isinstance(answer, Committed)
        assert (shown, rows) == (answer, ["x"])


def test_a_lost_session_is_no_rejection(server: TargetPlace) -> None:
    def change(tx: Any) -> None:
        server.write(tx, "x")
        tx.execute("SELECT pg_terminate_backend(pg_backend_pid())")

    answer, shown, rows = commit(server, change)
    assert isinstance(answer, Unknown)
    assert not answer.held
    assert (shown, rows) == (Absent(), [])


@pytest.mark.usefixtures("unguarded")
def test_an_operator_answers_what_slipped_through(server: TargetPlace, tmp_path: Path) -> None:
    """Exit 4 and not a retry for ever; then `resolve --as committed` is taken."""
    journal = dpone.open_journal(f"sqlite:{tmp_path / 'journal.db'}")
    target, _ = ready(server)
    operation = dpone.Operation(route="r", target="t", intent={})

    def change(tx: Any) -> None:
        server.write(tx, "x")
        tx.execute("COMMIT")

    by = wiring.committer(journal, target)
    for again in (False, True):
        with pytest.raises(CommitUnknown) as refused:
            by.commit(operation, change, take_over=again)
        assert refused.value.exit_code == 4
    entry = journal.read(operation.operation_id)
    assert entry is not None
    answered = resolve(
        by,
        entry.operation_id,
        Assertion.COMMITTED,
        expect_version=entry.version,
        operator="somebody",
        why="the row is there",
    )
    assert (answered.state, server.rows()) == (State.TARGET_COMMITTED, ["x"])
    journal.close()
