"""What a migration does with the lines around a manifest: no comment is lost on the way."""

from __future__ import annotations

import pytest

from tests.authoring.confined.studio import CATALOG
from tests.loading.project import Project

ROOT = "workloads/sales/orders/pipeline.yaml"
PROCESS = """\
  - schema: dpone.route.v1
    route: {name}
    source: {{csv: a.csv}}
    target: {{duckdb: w.duckdb, table: t}}
    strategy: append
"""
FOLDER = """\
# the root
kind: dpone.flow.v1  # a flow
fragments:  # in this order
  # nightly
  - a.yaml  # of the shop
  - b.yaml
  # no more
# who answers
metadata:
  owner: x
"""
FRAGMENT = (
    "# the file {name}\nkind: dpone.flow-fragment.v1\nprocesses:  # of {name}\n"
    + PROCESS
    + "# the end of {name}\n"
)
FLOW = (
    "# the root\nkind: dpone.flow.v1  # a flow\nprocesses:  # in this order\n"
    + PROCESS.format(name="sales.orders")
    + "  # no more\n# who answers\nmetadata: {domain: sales}\n"
)


def comments(text: str) -> list[str]:
    """The comments of a text, sorted."""
    return sorted(line[line.index("#") :] for line in text.splitlines() if "#" in line)


def migrate(project: Project, to: str, path: str = ROOT) -> None:
    said = project.call("authoring", "migrate", path, "--to", to, "--apply")
    assert said.code == 0, said.err


@pytest.mark.parametrize("newline", ["\n", "\r\n"], ids=["LF", "CRLF"])
def test_a_root_that_is_edited_in_place_keeps_every_comment(
    authored: Project, newline: str
) -> None:
    parts = {"a.yaml": FRAGMENT.format(name="a"), "b.yaml": FRAGMENT.format(name="b")}
    for name, text in {"pipeline.yaml": FOLDER, **parts}.items():
        authored.write(f"workloads/sales/orders/{name}", text.replace("\n", newline))
    wanted = comments("".join((FOLDER, *parts.values())))
    migrate(authored, "flow")
    text = (authored.root / ROOT).read_bytes().decode()
    assert comments(text) == wanted
    assert text.count("\n") == text.count(newline)
    # Each speaks of the same thing as before.
    lines = [line.strip() for line in text.splitlines()]
    assert lines.index("# nightly") < lines.index("# the file a") < lines.index("route: a")
    assert lines.index("route: b") < lines.index("# the end of b") < lines.index("# no more")
    assert lines[lines.index("metadata:") - 1] == "# who answers"
    migrate(authored, "folder")
    after = (authored.root / ROOT).read_bytes() + (
        authored.root / "workloads/sales/orders/processes.yaml"
    ).read_bytes()
    assert comments(after.decode()) == wanted


def test_a_comment_of_the_next_key_stays_with_it(authored: Project) -> None:
    authored.write(ROOT, FLOW)
    migrate(authored, "folder")
    assert (authored.root / ROOT).read_text() == (
        "# the root\nkind: dpone.flow.v1  # a flow\nfragments:  # in this order\n"
        "  - processes.yaml\n# who answers\nmetadata: {domain: sales}\n"
    )


@pytest.mark.parametrize("mark", ["", "\ufeff"], ids=["plain", "byte order mark"])
def test_the_comments_of_a_root_come_along_into_one_file(authored: Project, mark: str) -> None:
    authored.write(ROOT, mark + FLOW)
    (authored.root / "workloads/sales/orders.yaml").unlink()
    migrate(authored, "classic")
    text = (authored.root / "workloads/sales/orders.yaml").read_text()
    assert comments(text) == comments(FLOW)


@pytest.mark.parametrize("mark", ["\x85", "\u2028"])
def test_a_separator_that_no_editor_counts_ends_no_line(authored: Project, mark: str) -> None:
    text = PROCESS.format(name="sales.orders").replace("    ", "").removeprefix("  - ")
    authored.write("workloads/sales/orders.yaml", f'{text}columns: {{a: "x{mark} y"}}\n')
    migrate(authored, "flow", "workloads/sales/orders.yaml")
    assert f'    columns: {{a: "x{mark} y"}}\n' in (authored.root / ROOT).read_text()


def test_a_byte_order_mark_hides_no_key(authored: Project) -> None:
    authored.write(ROOT, "\ufeff" + FLOW)
    migrate(authored, "folder")
    assert (authored.root / ROOT).read_text().startswith("\ufeff# the root\nkind:")
    authored.write(ROOT, "\ufeff" + FLOW.removeprefix("# the root\n"))
    (authored.root / "workloads/sales/orders/processes.yaml").unlink()
    migrate(authored, "folder")
    assert (authored.root / ROOT).read_text().startswith("\ufeffkind:")


@pytest.mark.parametrize("to", ["flow", "folder"])
def test_what_cannot_be_moved_is_refused_for_the_form_that_was_asked(
    authored: Project, to: str
) -> None:
    text = (authored.root / "workloads/sales/orders.yaml").read_text()
    authored.write("workloads/sales/orders.yaml", "%YAML 1.2\n---\n" + text)
    said = authored.call("authoring", "migrate", "workloads/sales/orders", "--to", to)
    assert said.code == 1
    assert f"workloads/sales/orders.yaml cannot have the {to} form" in said.err


CATALOGS = {
    "a comment that says it too": (
        "workloads:\n  orders:\n    manifest: workloads/sales/orders.yaml"
        "  # was workloads/sales/orders.yaml.old\n"
    ),
    "two on one line": (
        "workloads: {orders: {manifest: workloads/sales/orders.yaml},"
        " more: {manifest: workloads/sales/orders.yaml}}\n"
    ),
    "a name with a dot": ("workloads:\n  orders.old:\n    manifest: workloads/sales/orders.yaml\n"),
}


@pytest.mark.parametrize("text", CATALOGS.values(), ids=CATALOGS)
def test_a_catalog_is_repointed_however_its_line_is_written(authored: Project, text: str) -> None:
    authored.write(CATALOG, f"domain: sales\n{text}")
    migrate(authored, "flow", "workloads/sales/orders.yaml")
    new = text.replace("manifest: workloads/sales/orders.yaml", f"manifest: {ROOT}")
    assert (authored.root / CATALOG).read_text() == f"domain: sales\n{new}"


@pytest.mark.parametrize(
    "way", ["./workloads/sales", "workloads//sales/./", "workloads/x/../sales"]
)
def test_a_catalog_is_repointed_whatever_way_it_says(authored: Project, way: str) -> None:
    text = "domain: sales\nworkloads:\n  orders:\n    manifest: {}  # ours\n"
    authored.write(CATALOG, text.format(f"{way}/orders.yaml"))
    migrate(authored, "flow", "workloads/sales/orders.yaml")
    assert (authored.root / CATALOG).read_text() == text.format(ROOT)


def test_a_line_that_cannot_be_changed_alone_is_named(authored: Project) -> None:
    text = "domain: sales\nworkloads:\n  orders: &o\n    manifest: workloads/sales/orders.yaml\n"
    authored.write(CATALOG, f"{text}  more: *o\n")
    said = authored.call("authoring", "migrate", "workloads/sales/orders.yaml", "--to", "flow")
    assert said.code == 1
    assert f"line 4 of {CATALOG} cannot be made to name it alone" in said.err


def test_a_refusal_names_the_file_that_is_no_yaml(authored: Project) -> None:
    path = authored.root / CATALOG
    before = path.read_text()
    path.write_text(f"{before}x: [\n")
    said = authored.call("authoring", "migrate", "workloads/sales/orders", "--to", "flow")
    assert "The file sales.yaml is not YAML" in said.err
    path.write_text(before)
    authored.write("workloads/sales/items.yaml", "x: [\n")
    said = authored.call("init", "workload", "sales/items")
    assert "The file items.yaml is not YAML" in said.err


OPEN = """\
schema: dpone.route.v1
route: sales.orders
target: {duckdb: w.duckdb, table: t}
strategy: append
source:
  query:
    connection: w
    sql: |
      SELECT 1"""
NAMED = {
    "classic": "workloads/sales/orders.yaml",
    "flow": ROOT,
    "folder": "workloads/sales/orders/processes.yaml",
}


def test_a_file_without_a_final_newline_keeps_none(authored: Project) -> None:
    """One that was added would be part of the text that ends there."""
    authored.write(NAMED["classic"], OPEN)
    for form in ("flow", "folder", "flow", "classic"):
        path = ROOT if (authored.root / ROOT).exists() else NAMED["classic"]
        if form == "classic":
            (authored.root / NAMED["classic"]).unlink()
        migrate(authored, form, path)
        assert (authored.root / NAMED[form]).read_text().endswith("  SELECT 1")
    assert (authored.root / NAMED["classic"]).read_text() == OPEN


def test_an_open_end_that_something_would_follow_is_told_as_such(authored: Project) -> None:
    item = "processes:\n  - " + OPEN.replace("\n", "\n    ")
    authored.write("p/pipeline.yaml", "kind: dpone.flow.v1\nfragments: [a.yaml, b.yaml]\n")
    authored.write("p/a.yaml", item)
    authored.write("p/b.yaml", item)
    said = authored.call("authoring", "migrate", "p", "--to", "flow", "--format", "json")
    assert (said.code, said.report["code"]) == (1, "DPONE_AUTHORING_MIGRATION_RECIPE_UNSUPPORTED")
    assert "ends without a line ending" in said.report["happened"]


def test_the_markers_of_a_document_stay_around_it(authored: Project) -> None:
    process = PROCESS.format(name="sales.orders")
    text = f"---\nkind: dpone.flow.v1\nprocesses:\n{process}... # the end\n"
    authored.write(ROOT, text)
    migrate(authored, "folder")
    wanted = text.replace(f"processes:\n{process}", "fragments:\n  - processes.yaml\n")
    assert (authored.root / ROOT).read_text() == wanted
