"""What an error says beyond its code: the field that was meant, the delimiter, the folder."""

from __future__ import annotations

import pytest

from tests.loading.project import TARGETS, Project

WRONG = "DPONE_SOURCE_COLUMN_MISSING"


@pytest.mark.parametrize(("mark", "written"), [(";", ";"), ("\t", "\\t"), ("|", "|")])
@pytest.mark.parametrize(
    "fields",
    [{}, {"partition": "{column: grp}"}, {"strategy": "{merge: [id]}"}],
    ids=["columns", "partition", "merge"],
)
def test_another_delimiter_is_suggested(
    project: Project, kind: str, mark: str, written: str, fields: dict[str, str]
) -> None:
    project.write("items.csv", f"id{mark}grp\n1{mark}a\n2{mark}b\n")
    project.route(target=TARGETS[kind], columns="{id: integer, grp: text}", **fields)
    said = project.run()
    assert (said.code, said.codes) == (1, [WRONG])
    assert f'delimiter: "{written}"' in said.err
    source = f'{{csv: items.csv, delimiter: "{written}"}}'
    fields = {"columns": "{id: integer, grp: text}", **fields}
    project.route(target=TARGETS[kind], source=source, **fields)
    assert project.run().code == 0


def test_no_delimiter_is_suggested_where_none_would_fit(project: Project) -> None:
    project.write("items.csv", "id,grp;x\n1,a\n")
    project.route()
    said = project.run()
    assert said.codes == [WRONG]
    assert "delimiter" not in said.err


@pytest.mark.parametrize(
    ("fields", "meant"),
    [
        ({"stratgy": "append", "strategy": ""}, "strategy"),
        ({"colums": "[id]", "columns": ""}, "columns"),
        ({"source": "{csv: items.csv, delimeter: x}"}, "delimiter"),
        ({"target": "{duckdb: w.duckdb, tabel: items}"}, "table"),
        ({"partition": "{interval: {colum: day, every: month}}"}, "column"),
        ({"strategy": "{replace_partitions: [grp]}"}, "replace_partition"),
    ],
)
def test_a_mistyped_field_names_the_nearest_one(
    project: Project, fields: dict[str, str], meant: str
) -> None:
    given = {"schema": "dpone.route.v1", "route": "r", "source": "{csv: items.csv}"}
    given |= {"target": TARGETS["duckdb"], "strategy": "append", "columns": "[id]"} | fields
    if "stratgy" in fields:
        del given["strategy"]
    lines = [f"{name}: {value}" for name, value in given.items() if value]
    project.write("route.yaml", "\n".join(lines) + "\n")
    said = project.run()
    assert (said.code, said.codes) == (2, ["DPONE_MANIFEST_INVALID"])
    assert f"perhaps {meant} is meant" in said.err
    wrong = next(n for n, text in enumerate(lines, 1) if any(
        word in text for word in ("stratgy", "colums", "delimeter", "tabel", "colum:", "partitions")
    ))  # fmt: skip
    assert f"at line {wrong}" in said.err


def test_a_field_like_no_other_gets_no_guess(project: Project) -> None:
    project.route(xyzzy="1")
    said = project.run()
    assert said.codes == ["DPONE_MANIFEST_INVALID"]
    assert "perhaps" not in said.err


@pytest.mark.parametrize("command", [("run",), ("route", "validate"), ("route", "explain")])
def test_a_folder_is_told_by_its_name(project: Project, command: tuple[str, ...]) -> None:
    said = project.call(*command, ".")
    assert said.code == 2
    assert f"The manifest {project.root.name} cannot be read: it is a folder" in said.err


def test_validate_says_what_it_did_not_look_at(project: Project) -> None:
    project.route(source="{csv: absent-*.csv}")
    said = project.call("route", "validate", "route.yaml")
    assert said.code == 0
    assert "Whether files fit absent-*.csv was not looked at" in said.out
