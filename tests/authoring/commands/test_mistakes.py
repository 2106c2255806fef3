"""Whatever somebody gets wrong ends in a code, a truth and a next step, and changes nothing."""

from __future__ import annotations

import fcntl
import os
import re

import pytest

from dpone.cli.session import printable
from tests.authoring.confined.studio import CATALOG, At, codes
from tests.authoring.confined.test_refusals import tree
from tests.cli.mistakes_authoring import MANIFEST, MISTAKES, SET, Mistake
from tests.cli.ordinary import ordinary, ordinary_folder
from tests.loading.project import Project


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda case: case.name.replace(" ", "_"))
@pytest.mark.parametrize("apply", [False, True], ids=["plan", "apply"])
def test_a_mistake_is_explained_and_changes_nothing(
    authored: Project, mistake: Mistake, apply: bool
) -> None:
    mistake.make(authored)
    before = tree(authored.root)
    arguments = [*mistake.arguments, *(["--apply"] if apply else []), "--format", "json"]
    said = authored.call(*arguments)
    report = said.report
    assert (codes(said), said.code) == ([mistake.code], mistake.exit_code), said.err
    assert report["exit_code"] == said.code
    assert report["next"]
    assert report["known"]
    assert printable(report["happened"]) in said.err
    text = said.out + said.err
    assert "Traceback" not in text
    assert str(authored.root) not in text
    assert not re.search(r"(?<![\w.])/(?:tmp|root|home|usr|var|dev)/", text)
    assert tree(authored.root) == before


def test_enough_mistakes() -> None:
    assert len(MISTAKES) >= 50
    assert len({mistake.code for mistake in MISTAKES}) >= 17
    assert len({mistake.name for mistake in MISTAKES}) == len(MISTAKES)


def test_somebody_else_at_work_is_exit_code_3(authored: Project) -> None:
    folder, _, leaf = CATALOG.rpartition("/")
    for kind in ("transaction", "publish"):
        path = authored.root / folder / f".{leaf}.dpone-{kind}.json"
        path.write_bytes(b"{}")
        before = tree(authored.root)
        with path.open("r+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            said = authored.call("init", "workload", "sales/items", "--apply", "--format", "json")
            assert (said.code, codes(said)) == (3, ["DPONE_AUTHORING_TRANSACTION_IN_PROGRESS"])
            assert tree(authored.root) == before
        path.unlink()


SECRET = "hunter2-secret"
MIGRATE = ("authoring", "migrate", MANIFEST, "--to", "flow")
WORKLOAD = ("init", "workload", "sales/items")
BROKEN: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "catalog, no YAML": (CATALOG, f"domain: sales\nx: {SECRET}: [\n", WORKLOAD),
    "catalog, a tab": (CATALOG, f"domain:\n\t- {SECRET}\n", WORKLOAD),
    "catalog, a key twice": (CATALOG, f"x: {SECRET}\nx: {SECRET}\n", WORKLOAD),
    "catalog, another domain": (CATALOG, f"domain: {SECRET}\n", WORKLOAD),
    "catalog, another shape": (CATALOG, f"domain: sales\ndags: {SECRET}\n", WORKLOAD),
    "set, another shape": (SET, f"catalogs: [{SECRET}]\n", ("init",)),
    "settings, no TOML": ("dpone.toml", f'x = "{SECRET}\n', ("init",)),
    "settings, a value of another kind": ("dpone.toml", f'connections = "{SECRET}"\n', ("init",)),
    "manifest, no YAML": (MANIFEST, f"route: {SECRET}: [\n", MIGRATE),
    "manifest, a value of another kind": (
        MANIFEST, f"schema: dpone.route.v1\nroute: [{SECRET}]\n", MIGRATE,
    ),
    "fragment that is missing": (
        MANIFEST, f"# {SECRET}\nkind: dpone.flow.v1\nfragments: [absent.yaml]\n", MIGRATE,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_a_refusal_repeats_no_byte_of_a_file(authored: Project, name: str) -> None:
    path, text, command = BROKEN[name]
    authored.write(path, text)
    for more in ((), ("--apply",), ("--format", "json")):
        said = authored.call(*command, *more)
        assert said.code in (1, 2, 4), said.err
        assert SECRET not in said.out + said.err


def test_an_ordinary_user_does_all_of_it() -> None:
    with ordinary_folder() as folder, ordinary(folder) as user:
        for command in (
            ("init",),
            ("init", "domain", "sales"),
            ("init", "workload", "sales/orders", "--dag", "daily"),
            ("init", "workload", "sales/items", "--layout", "folder"),
            ("catalog", "apply", "sales", "--dag", "daily", "--workload", "items"),
            ("authoring", "migrate", "workloads/sales/orders", "--to", "flow"),
            ("authoring", "migrate", "workloads/sales/orders", "--to", "folder"),
        ):
            said = user.call(*command, "--apply", "--format", "json")
            assert (said.code, said.report["status"]) == (0, "applied"), said.err
            again = user.call(*command, "--apply", "--format", "json")
            assert (again.code, again.report["status"]) == (0, "no_op"), again.err
        (folder / "dpone_workloads/gitops/domains").chmod(0o555)
        said = user.call("init", "workload", "sales/more", "--apply", "--format", "json")
        code = (said.code, said.report["code"])
        (folder / "dpone_workloads/gitops/domains").chmod(0o755)
        assert code == (4, "DPONE_AUTHORING_FOLDER_READ_ONLY")
        assert not (folder / "workloads/sales/more.yaml").exists()
        assert [path for path in folder.rglob("*") if ".dpone-" in path.name] == []
        assert os.geteuid() >= 0


@pytest.mark.parametrize(
    "point", ["authoring.receipt:after", "authoring.publish:after", "authoring.exchange:after"]
)
def test_what_nobody_foresaw_is_exit_code_5_and_the_next_run_finishes(
    authored: Project, point: str
) -> None:
    def fail() -> None:
        raise RuntimeError("nobody foresaw it")

    command = ("init", "workload", "sales/items", "--apply", "--format", "json")
    said = authored.call(*command, probe=At(point, fail))
    assert (said.code, codes(said)) == (5, ["DPONE_AUTHORING_INTERNAL"])
    assert "Traceback" not in said.err
    plan = authored.call("init", "workload", "sales/items", "--format", "json").report
    assert any("waits" in warning for warning in plan["warnings"])
    again = authored.call(*command)
    assert (again.code, again.report["passed"]) == (0, True)
    assert [path.name for path in authored.root.rglob("*") if ".dpone-" in path.name] == []
