"""Every clause of the decisions names what does it and what shows it, and both are there."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = {
    name: ROOT / f"docs/reference/clauses/{name}.md"
    for name in ("fencing", "authoring", "retention")
}
_ROW = re.compile(r"^\| ([A-Z]\d+) \|")
_QUOTED = re.compile(r"`([^`]+)`")
UNVERIFIED = "UNVERIFIED: "


class Clause(NamedTuple):
    """A row of a page."""

    id: str
    text: str
    done: str
    shown: str


def clauses(page: Path) -> list[Clause]:
    """The rows of all tables of a page. Raises ValueError for a row with other columns."""
    found = []
    for line in page.read_text(encoding="utf-8").splitlines():
        if _ROW.match(line):
            cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
            if len(cells) != len(Clause._fields):
                raise ValueError(f"{page.name}: {line}")
            found.append(Clause(*cells))
    return found


@cache
def _tests(path: str) -> frozenset[str]:
    """The names of the test functions of a file."""
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return frozenset(
        node.name
        for node in ast.walk(tree)
        if isinstance(node, kinds) and node.name.startswith("test_")
    )


def _machines(path: str) -> frozenset[str]:
    """The test cases that a file names at its top level, as those of state machines are."""
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    return frozenset(
        target.id
        for node in tree.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name) and target.id.startswith("Test")
    )


def wrong(clause: Clause) -> list[str]:
    """What a row names that is not there."""
    found = [
        f"{clause.id}: no file {path}"
        for path in _QUOTED.findall(clause.done)
        if not (ROOT / path).exists()
    ]
    is_open = clause.shown.startswith(UNVERIFIED)
    if not _QUOTED.search(clause.done) and not (is_open and clause.done == "none"):
        found.append(f"{clause.id}: names nothing that does it")
    # A reason may quote; what shows a clause is a test.
    shown = [] if is_open else _QUOTED.findall(clause.shown)
    if not shown and not is_open:
        found.append(f"{clause.id}: names nothing that shows it")
    for named in shown:
        path, _, name = named.partition("::")
        if not (ROOT / path).is_file():
            found.append(f"{clause.id}: no file {path}")
        elif name not in _tests(path) | _machines(path):
            found.append(f"{clause.id}: no test {named}")
    return found


@pytest.mark.parametrize("name", PAGES)
def test_every_clause_names_code_and_tests_that_exist(name: str) -> None:
    assert [problem for clause in clauses(PAGES[name]) for problem in wrong(clause)] == []


@pytest.mark.parametrize("name", PAGES)
def test_the_clauses_of_a_page_are_counted_from_one(name: str) -> None:
    ids = [clause.id for clause in clauses(PAGES[name])]
    assert len(ids) >= 30
    assert ids == [f"{ids[0][0]}{number:02}" for number in range(1, len(ids) + 1)]


def test_a_row_that_names_what_is_not_there_is_noticed() -> None:
    named = "`tests/golden/test_clauses.py::test_of_nothing`"
    here = "`tests/golden/test_clauses.py`"
    assert wrong(Clause("X01", "", "`dpone/nothing.py`", "")) == [
        "X01: no file dpone/nothing.py",
        "X01: names nothing that shows it",
    ]
    assert wrong(Clause("X02", "", here, named)) == [f"X02: no test {named.strip('`')}"]
    assert wrong(Clause("X03", "", "", f"{UNVERIFIED}no such machine")) == [
        "X03: names nothing that does it"
    ]
