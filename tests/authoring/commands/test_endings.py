"""How a command ends when something of its change is left to do, and what its receipt counts."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from dpone.adapters.posix.files import PosixFolder
from dpone.ports.files import FilesError
from tests.authoring.confined.studio import CATALOG, At
from tests.authoring.confined.test_editors import leftovers
from tests.loading.project import Project

RUNBOOK = Path(__file__).resolve().parents[3] / "docs/runbooks/authoring.md"
ITEMS = "workloads/sales/items.yaml"
NEW = ("init", "workload", "sales/items", "--apply")
DAG = ("init", "dag", "sales/daily", "--workload", "orders", "--apply")
MIGRATE = ("authoring", "migrate", "workloads/sales/orders", "--to", "flow", "--apply")
COMMANDS = {"init workload": NEW, "init dag": DAG, "migrate": MIGRATE}


@pytest.mark.parametrize("finish", ["the command", "recover"])
@pytest.mark.parametrize("step", ["unlink", "sync"])
@pytest.mark.parametrize("command", COMMANDS)
def test_what_is_in_force_with_cleanup_pending_ends_4_and_is_finished_later(
    authored: Project, monkeypatch: pytest.MonkeyPatch, command: str, step: str, finish: str
) -> None:
    real = getattr(PosixFolder, step)
    is_over: list[bool] = []

    def failing(self: PosixFolder, *arguments: str) -> None:
        if is_over:
            raise FilesError(*arguments[:1])
        real(self, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(PosixFolder, step, failing)
        # Other exchanges are rehearsals; a folder that was used before has none.
        patch.setattr(PosixFolder, "certified", lambda _: True)
        probe = At("authoring.exchange:after", lambda: is_over.append(True))
        said = authored.call(*COMMANDS[command], "--format", "json", probe=probe)
    assert (said.code, said.report["status"], said.report["passed"]) == (4, "applied", False)
    assert said.report["unit_of_work"]["status"] == "committed"
    assert said.report["counters"] == {
        "committed_cleanup_required": 1,
        "rolled_back": 0,
        "recovery_required": 0,
    }
    after = {path: text for path, text in authored.snapshot().items() if ".dpone-" not in path}
    if finish == "recover":
        assert authored.call("authoring", "recover", CATALOG, "--apply").code == 0
        assert leftovers(authored) == set()
    again = authored.call(*COMMANDS[command], "--format", "json")
    assert (again.code, again.report["status"]) == (0, "no_op")
    assert authored.snapshot() == after


def test_what_was_undone_ends_1_and_is_counted(authored: Project) -> None:
    catalog = authored.root / CATALOG

    def save() -> None:
        catalog.write_bytes(catalog.read_bytes() + b"# mine\n")

    probe = At("authoring.publish:after", save)
    said = authored.call(*NEW, "--format", "json", probe=probe)
    assert (said.code, said.report["status"], said.report["passed"]) == (1, "rolled_back", False)
    assert said.report["errors"][0]["code"] == "DPONE_AUTHORING_SOURCE_CHANGED"
    assert said.report["unit_of_work"]["status"] == "rolled_back"
    assert said.report["counters"] == {
        "committed_cleanup_required": 0,
        "rolled_back": 1,
        "recovery_required": 0,
    }
    assert not (authored.root / ITEMS).exists()
    assert catalog.read_bytes().endswith(b"# mine\n")


def stopped(project: Project, point: str) -> None:
    """A command that ends at a point and clears nothing up."""

    def end() -> None:
        raise KeyboardInterrupt

    assert project.call(*NEW, probe=At(point, end)).code == 130


@pytest.mark.skipif(shutil.which("find") is None, reason="there is no find")
def test_the_search_before_an_earlier_release_finds_every_record(authored: Project) -> None:
    """As the runbook prints it, for plain names and for names that stand in for long ones."""
    (command,) = re.findall(r"^    (find \. .*)$", RUNBOOK.read_text("utf-8"), re.MULTILINE)
    stopped(authored, "authoring.exchange:before")
    folder = authored.root / "workloads/sales"
    long = {f".dpone-{'0' * 32}.{kind}.json" for kind in ("transaction", "publish")}
    for name in (*long, ".draft.yaml.dpone-transaction.json.draft"):
        (folder / name).write_bytes(b"")
    found = subprocess.run(
        command, shell=True, cwd=authored.root, check=True, capture_output=True, text=True
    )
    names = {Path(line).name for line in found.stdout.splitlines()}
    assert names == {
        ".sales.yaml.dpone-transaction.json",
        ".sales.yaml.dpone-publish.json",
        ".draft.yaml.dpone-transaction.json.draft",
        *long,
    }
