"""The YAML reader and the project file: texts stay texts, and every error has a place."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpone.adapters.projectfile.reading import project_of, variable_of
from dpone.adapters.yamlfile.reading import parse
from dpone.contracts.errors_loading import (
    ConnectionInvalid,
    ConnectionUnknown,
    ManifestDuplicateKey,
    ManifestError,
    ManifestInvalid,
    PathOutsideProject,
)
from dpone.loading.manifest import manifest_of
from tests.loading.project import Project

TEXT = """\
schema: dpone.route.v1
route: r
source:
  csv: a.csv
  null: [no, "", ~]
target: {duckdb: w, table: t}
strategy: {merge: [on]}
revision: 0x10
"""


def test_every_plain_scalar_stays_what_was_written() -> None:
    document = parse("on: no\n1.10: ~\n'x': null\n2024-01-01: 010\nempty:\n", "m.yaml")
    assert document.value == {
        "on": "no", "1.10": "~", "x": "null", "2024-01-01": "010", "empty": "",
    }  # fmt: skip


def test_every_place_has_its_line() -> None:
    lines = parse(TEXT, "m.yaml").lines
    assert lines["$.source"] == 4
    assert lines["$.source.null[2]"] == 5
    assert lines["$.strategy.merge[0]"] == 7


def test_an_error_names_line_and_place() -> None:
    document = parse(TEXT, "m.yaml")
    with pytest.raises(ManifestInvalid) as caught:
        manifest_of(document.value, document.lines, "m.yaml")
    assert (caught.value.fields["line"], caught.value.fields["place"]) == (8, "at $.revision")


def test_a_key_is_twice_also_below() -> None:
    with pytest.raises(ManifestDuplicateKey) as caught:
        parse("a:\n  b: 1\n  'b': 2\n", "m.yaml")
    assert caught.value.fields["line"] == 3


@given(st.text(max_size=60))
def test_any_text_is_a_value_or_a_typed_error(text: str) -> None:
    with suppress(ManifestError):
        document = parse(text, "m.yaml")
        manifest_of(document.value, document.lines, "m.yaml")


SMALL = st.recursive(
    st.text(max_size=8) | st.sampled_from(["none", "file", "append", "items", "true", "1"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["csv", "table", "duckdb", "column", "merge"]), inner)
    ),
    max_leaves=8,
)
FIELDS = ("route", "source", "target", "strategy", "partition", "journal", "revision", "columns")


@given(st.fixed_dictionaries({}, optional=dict.fromkeys(FIELDS, SMALL)))
def test_any_value_is_a_route_or_a_typed_error(value: dict[str, Any]) -> None:
    with suppress(ManifestError):
        manifest_of({"schema": "dpone.route.v1", **value}, {}, "m.yaml")


def test_the_project_is_the_nearest_folder_with_a_project_file(project: Project) -> None:
    project.write("routes/deep/r.yaml", "")
    found = project_of(project.root / "routes/deep/r.yaml", {})
    assert (found.root, found.environment) == (project.root, "test")
    (project.root / "dpone.toml").unlink()
    found = project_of(project.root / "routes/deep/r.yaml", {})
    assert (found.root, found.environment) == (project.root / "routes/deep", "default")


@pytest.mark.parametrize(
    ("declared", "inside"),
    [("a/b", True), ("a/../b", True), ("./a", True), ("..", False), ("a/../../b", False),
     ("/a", False), ("a\\..\\..\\b", False)],
)  # fmt: skip
def test_a_path_stays_in_the_project(tmp_path: Path, declared: str, inside: bool) -> None:
    found = project_of(tmp_path / "r.yaml", {})
    if inside:
        assert found.inside(declared, "source", "folder") == tmp_path / declared
    else:
        with pytest.raises(PathOutsideProject):
            found.inside(declared, "source", "folder")


def test_a_variable_wins_over_the_file(project: Project) -> None:
    project.write("dpone.toml", '[connections.my-pg]\nkind = "postgres"\ndsn = "host=a"\n')
    path = project.root / "r.yaml"
    assert variable_of("my-pg") == "DPONE_CONNECTION_MY_PG"
    assert project_of(path, {}).connection("my-pg", "postgres") == ("postgres", "host=a")
    for given_text, value in (
        ("host=b", "host=b"),
        ("postgres:host=c", "host=c"),
        ("postgresql://d/x", "postgresql://d/x"),
    ):
        found = project_of(path, {"DPONE_CONNECTION_MY_PG": given_text})
        assert found.connection("my-pg", "postgres") == ("postgres", value)
    with pytest.raises(ConnectionUnknown):
        project_of(path, {}).connection("other", "postgres")


@pytest.mark.parametrize("kind", ["sqlite", "duckdb", "folder"])
@pytest.mark.parametrize(
    "offered", ["postgres:host=a password=s3cret", "postgresql://u:s3cret@a/x"]
)
def test_an_address_is_never_taken_for_the_path_of_a_file(
    project: Project, kind: str, offered: str
) -> None:
    project.write("dpone.toml", f'[connections.w]\nkind = "{kind}"\ndsn = "w.db"\n')
    found = project_of(project.root / "r.yaml", {"DPONE_CONNECTION_W": offered})
    with pytest.raises(ConnectionInvalid) as caught:
        found.connection("w", kind)
    assert f"declared of kind {kind}, and given as postgres" in str(caught.value)
    assert "s3cret" not in str(caught.value.report())
