"""A refusal names the line, and advises what helps for what was refused."""

from __future__ import annotations

import pytest

from dpone.adapters.yamlfile.documents import YamlDocuments
from dpone.contracts.plainyaml import View
from tests.authoring.confined.studio import CATALOG
from tests.cli.mistakes_authoring import SET
from tests.cli.ordinary import ordinary, ordinary_folder
from tests.loading.project import Project


def test_another_owner_is_told_with_its_line_whatever_the_name(authored: Project) -> None:
    authored.write(CATALOG, "domain: sales\nworkloads:\n  a.b:\n    manifest: x\n    owner: me\n")
    said = authored.call("catalog", "apply", "sales", "--workload", "a.b", "--owner", "you")
    assert "workloads.a.b and differs in: owner (line 5)" in said.err


def test_a_set_without_the_pattern_is_told_with_its_line(authored: Project) -> None:
    authored.write(SET, "# ours\nschema: dpone.workload-set.v1\ncatalogs:\n  - domains/a.yaml\n")
    said = authored.call("init", "domain", "shop")
    assert f"{SET} cannot be used: catalogs does not list domains/*.yaml (line 4)" in said.err


@pytest.mark.parametrize(
    ("command", "form"),
    [
        (("init", "domain", "Shop"), "2 to 128 lower-case letters"),
        (("init", "dag", "sales/a b"), "1 to 250 letters"),
        (("init", "domain", "shop", "--owner-team", " "), "one line of 1 to 256 characters"),
    ],
    ids=["domain", "DAG", "owner"],
)
def test_a_refused_name_is_told_its_own_form(
    authored: Project, command: tuple[str, ...], form: str
) -> None:
    assert f"Use {form}" in authored.call(*command).err


def test_a_file_in_the_place_of_a_folder_is_told_as_such(authored: Project) -> None:
    authored.write("workloads/sales/items", "x")
    said = authored.call("init", "workload", "sales/items", "--layout", "flow")
    assert "items, on the way to it, is no folder" in said.err
    assert "Move items away" in said.err


def test_a_link_in_the_place_of_a_folder_is_told_as_such(authored: Project) -> None:
    (authored.root / "workloads").rename(authored.root / "moved")
    (authored.root / "workloads").symlink_to("moved")
    said = authored.call("authoring", "migrate", "workloads/sales/orders.yaml", "--to", "flow")
    assert "workloads, on the way to it, is a link" in said.err
    assert "Put a plain folder in the place of workloads" in said.err


def test_a_workload_that_is_said_twice_runs_once(authored: Project) -> None:
    argv = ("init", "dag", "sales/daily", "--workload", "orders", "--apply")
    assert authored.call(*argv, "--workload", "orders").code == 0
    before = (authored.root / CATALOG).read_bytes()
    assert before.count(b"- orders") == 1
    assert authored.call(*argv).code == 0
    assert (authored.root / CATALOG).read_bytes() == before


def test_a_catalog_is_read_once_for_all_the_workloads_of_a_dag(
    authored: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reading ten thousand entries anew for each member takes half a minute."""
    names = [f"w{number}" for number in range(9)]
    entries = "".join(f"  {name}: {{manifest: x}}\n" for name in names)
    authored.write(CATALOG, f"domain: sales\nworkloads:\n{entries}")
    seen: list[bytes] = []
    view = YamlDocuments.view

    def counted(self: YamlDocuments, data: bytes, name: str) -> View:
        seen.append(data)
        return view(self, data, name)

    monkeypatch.setattr(YamlDocuments, "view", counted)
    members = [word for name in names for word in ("--workload", name)]
    assert authored.call("init", "dag", "sales/daily", *members).code == 0
    assert len(seen) == len(set(seen)) == 1


def test_a_closed_folder_and_a_closed_file_are_told_apart() -> None:
    with ordinary_folder() as folder, ordinary(folder) as user:
        for command in (("init",), ("init", "domain", "sales")):
            assert user.call(*command, "--apply").code == 0
        closed = {CATALOG: "FILE", CATALOG.rpartition("/")[0]: "FOLDER"}
        for name, code in closed.items():
            mode = (folder / name).stat().st_mode
            (folder / name).chmod(0o200)
            said = user.call("init", "workload", "sales/items")
            (folder / name).chmod(mode)
            assert said.err.startswith(f"DPONE_AUTHORING_{code}_UNREADABLE: {CATALOG}")


def test_a_domain_outside_of_a_project_is_told_as_such(authored: Project) -> None:
    """Commands below would take their own folder for the project, and write there."""
    assert "no dpone.toml" not in authored.call("init", "domain", "shop").out
    (authored.root / "dpone.toml").unlink()
    assert "note: there is no dpone.toml here" in authored.call("init", "domain", "shop").out


@pytest.mark.parametrize("ending", [".yaml", ".yml"])
def test_a_path_without_its_ending_is_found_from_a_folder_below(
    authored: Project, capsys: pytest.CaptureFixture[str], ending: str
) -> None:
    folder = authored.root / "workloads/sales"
    (folder / "orders.yaml").rename(folder / f"orders{ending}")
    below = Project(folder, capsys)
    said = below.call("authoring", "migrate", "workloads/sales/orders", "--to", "flow")
    assert said.code == 0, said.err
