"""What authoring writes validates and runs; a migration keeps meaning, comments and quotes."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from dpone.authoring import forms
from dpone.authoring.forms import Source
from dpone.ports.documents import Documents
from tests.authoring.confined.studio import CATALOG
from tests.authoring.confined.test_editors import leftovers
from tests.loading.project import Project

FORMS = ("classic", "flow", "folder")
ROWS = "id,name\n1,a\n2,b\n"
ROOTS = {
    "classic": "workloads/sales/{}.yaml",
    "flow": "workloads/sales/{}/pipeline.yaml",
    "folder": "workloads/sales/{}/pipeline.yaml",
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    "options",
    [
        (),
        ("--target", "sqlite"),
        ("--strategy", "append", "--partition", "file"),
        ("--strategy", "merge", "--key", "id", "--target", "sqlite:other.sqlite"),
    ],
    ids=str,
)
def test_a_generated_workload_validates_and_runs(
    authored: Project, form: str, options: tuple[str, ...]
) -> None:
    authored.write("data/sales/items/one.csv", ROWS)
    said = authored.call("init", "workload", "sales/items", "--layout", form, *options, "--apply")
    assert said.code == 0, said.err
    root = ROOTS[form].format("items")
    validated = authored.call("route", "validate", root)
    assert validated.code == 0, validated.err
    kind = "sqlite" if "--target" in options else "duckdb"
    if "merge" in options:
        authored.sqlite("CREATE TABLE items (id INTEGER PRIMARY KEY, name TEXT)", "other.sqlite")
    elif kind == "sqlite":
        authored.sqlite("CREATE TABLE items (id INTEGER, name TEXT)")
    run = authored.call("run", root, "--format", "json")
    assert (run.code, run.hows) == (0, ["committed"]), run.err
    name = "other.sqlite" if "merge" in options else f"warehouse.{kind}"
    query = "SELECT CAST(id AS VARCHAR), name FROM items ORDER BY id"
    rows = authored.sqlite(query, name) if kind == "sqlite" else authored.duckdb(query, name)
    assert rows == [("1", "a"), ("2", "b")]
    again = authored.call("run", root, "--format", "json")
    assert again.hows == ["replayed"]


COMMENTED = """\
# The orders of the shop: keep "quotes" & größe
schema: "dpone.route.v1"   # plain

route: 'sales.orders'
source: {csv: "data/sales/orders/*.csv"}
target:
    duckdb: warehouse.duckdb # the one
    table:   orders
# why this strategy
strategy: full_refresh
columns: {id: integer, code: text}
"""
MARKS = (
    '# The orders of the shop: keep "quotes" & größe',
    "# plain",
    "'sales.orders'",
    "# the one",
    "table:   orders",
    "# why this strategy",
    '"dpone.route.v1"',
)


def rewritten(project: Project, newline: str = "\n") -> None:
    text = COMMENTED.replace("\n", newline)
    project.write("workloads/sales/orders.yaml", text)


def texts(project: Project, form: str) -> str:
    """All text of the workload in a form."""
    root = project.root / ROOTS[form].format("orders")
    more = root.with_name("processes.yaml")
    found = root.read_bytes() + (more.read_bytes() if form == "folder" else b"")
    return found.decode()


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize("target", FORMS)
@pytest.mark.parametrize("source", FORMS)
def test_a_migration_keeps_meaning_comments_and_quotes(
    authored: Project, source: str, target: str, newline: str
) -> None:
    rewritten(authored, newline)
    authored.write("data/sales/orders/one.csv", "id,code\n1,010\n")
    path = "workloads/sales/orders"

    def migrate(form: str) -> str:
        argv = ("authoring", "migrate", path, "--to", form, "--apply", "--format", "json")
        said = authored.call(*argv)
        assert said.code == 0, said.err
        return str(said.report["source"]["semantic_fingerprint"])

    before = migrate(source)
    if source != "classic":
        (authored.root / ROOTS["classic"].format("orders")).unlink()
    assert migrate(target) == before
    text = texts(authored, target)
    for mark in MARKS:
        assert mark in text
    assert ("\r\n" in text) is (newline == "\r\n")
    manifest = ROOTS[target].format("orders")
    assert f"manifest: {manifest}\n" in (authored.root / CATALOG).read_text()
    assert authored.call("route", "validate", manifest).code == 0
    run = authored.call("run", manifest, "--format", "json")
    assert (run.code, run.hows) == (0, ["committed"]), run.err
    assert authored.duckdb("SELECT id, code FROM orders") == [(1, "010")]
    assert leftovers(authored) == set()


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"], ids=["plain", "byte order mark"])
@pytest.mark.parametrize("ending", [b"\n", b"\r\n"], ids=["LF", "CRLF"])
def test_a_migration_changes_one_line_of_the_catalog(
    authored: Project, ending: bytes, mark: bytes
) -> None:
    catalog = authored.root / CATALOG
    text = catalog.read_text().replace("orders.yaml\n", "orders.yaml   # the one\n") + "# end"
    catalog.write_bytes(mark + text.encode().replace(b"\n", ending))
    before = catalog.read_bytes().splitlines(keepends=True)
    argv = ("authoring", "migrate", "workloads/sales/orders", "--to", "flow", "--apply")
    assert authored.call(*argv).code == 0
    after = catalog.read_bytes().splitlines(keepends=True)
    (changed,) = (pair for pair in zip(before, after, strict=True) if pair[0] != pair[1])
    assert changed[1] == changed[0].replace(b"orders.yaml", b"orders/pipeline.yaml")


@pytest.mark.parametrize("to", ["flow", "folder"])
@pytest.mark.parametrize("apply", [(), ("--apply",)], ids=["plan", "apply"])
def test_a_form_that_would_mean_something_else_is_refused(
    authored: Project, monkeypatch: pytest.MonkeyPatch, to: str, apply: tuple[str, ...]
) -> None:
    """A defect of ours in what is written is found before anything is."""

    def emit(documents: Documents, source: Source, form: str, fields: dict[str, str]) -> Source:
        made = forms.emit(documents, source, form, fields)
        texts = {
            name: text.replace("full_refresh", "append") for name, text in made.fragments.items()
        }
        root = made.root.replace("full_refresh", "append")
        return dataclasses.replace(made, root=root, fragments=texts)

    monkeypatch.setattr("dpone.authoring.migrate.emit", emit)
    before = authored.snapshot()
    argv = ("authoring", "migrate", "workloads/sales/orders", "--to", to, *apply)
    said = authored.call(*argv, "--format", "json")
    assert (said.code, said.report["code"]) == (4, "DPONE_AUTHORING_MIGRATION_SEMANTIC_DRIFT")
    assert authored.snapshot() == before


def test_a_catalog_that_says_the_path_twice_is_not_changed_by_halves(authored: Project) -> None:
    catalog = authored.root / CATALOG
    text = catalog.read_text().replace("manifest: workloads", "manifest: &it workloads")
    catalog.write_text(text + "copy: *it\n")
    before = authored.snapshot()
    argv = ("authoring", "migrate", "workloads/sales/orders", "--to", "flow", "--apply")
    said = authored.call(*argv, "--format", "json")
    assert (said.code, said.report["code"]) == (1, "DPONE_AUTHORING_MIGRATION_RECIPE_UNSUPPORTED")
    assert authored.snapshot() == before


def test_old_files_stay_and_are_named(authored: Project) -> None:
    path = "workloads/sales/orders"
    argv = ("authoring", "migrate", path, "--apply", "--format", "json", "--to")
    report = authored.call(*argv, "folder").report
    assert report["retained_files"] == ["workloads/sales/orders.yaml"]
    assert report["warnings"][0].startswith("DPONE_AUTHORING_MIGRATION_OLD_FRAGMENTS_RETAINED")
    report = authored.call(*argv, "flow").report
    assert report["retained_files"] == ["workloads/sales/orders/processes.yaml"]
    assert Path(authored.root / "workloads/sales/orders/processes.yaml").exists()


def test_there_and_back_again_through_the_catalog(authored: Project) -> None:
    """Two forms lie side by side, and the catalog alone says which one counts."""
    path = "workloads/sales/orders"
    for form in ("flow", "classic", "flow", "folder", "flow", "classic"):
        argv = ("authoring", "migrate", path, "--to", form, "--apply", "--format", "json")
        said = authored.call(*argv)
        assert said.code == 0, (form, said.err)
        catalog = (authored.root / CATALOG).read_text()
        assert f"manifest: {ROOTS[form].format('orders')}\n" in catalog
        again = authored.call(*argv)
        assert (again.code, again.report["status"]) == (0, "no_op")


def test_a_declared_form_that_is_not_there(authored: Project) -> None:
    argv = ("authoring", "migrate", "workloads/sales/orders", "--to", "flow", "--from", "folder")
    said = authored.call(*argv, "--apply", "--format", "json")
    assert (said.code, said.report["code"]) == (
        2,
        "DPONE_AUTHORING_MIGRATION_SOURCE_MODE_MISMATCH",
    )


def test_a_fragment_that_is_there_with_other_bytes(authored: Project) -> None:
    authored.write("workloads/sales/orders/processes.yaml", "mine: yes\n")
    before = authored.snapshot()
    argv = ("authoring", "migrate", "workloads/sales/orders", "--to", "folder", "--apply")
    said = authored.call(*argv, "--format", "json")
    assert (said.code, said.report["code"]) == (1, "DPONE_WORKLOAD_INIT_SCAFFOLD_CONFLICT")
    assert authored.snapshot() == before
