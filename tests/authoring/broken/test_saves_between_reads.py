"""A save between two reads of one plan is a conflict; it is never planned away."""

from __future__ import annotations

import pytest

from dpone.authoring.reading import Tree
from tests.authoring.confined.studio import CATALOG
from tests.loading.project import Project

SAVED = b"# saved in between\n"
MANIFEST = "workloads/sales/orders.yaml"
FLOW = "workloads/sales/orders/pipeline.yaml"
COMMANDS = {
    "workload": ("init", "workload", "sales/late"),
    "dag": ("init", "dag", "sales/daily", "--workload", "orders"),
    "member": ("catalog", "apply", "sales", "--dag", "nightly", "--workload", "orders"),
    "migrate": ("authoring", "migrate", MANIFEST, "--to", "flow"),
}


def save_after(monkeypatch: pytest.MonkeyPatch, authored: Project, path: str, count: int) -> None:
    """Have an editor append a line to a file after it was read `count` times."""
    honest, reads = Tree.read, [0]

    def read(tree: Tree, asked: str) -> bytes | None:
        data = honest(tree, asked)
        if asked == path:
            reads[0] += 1
            if reads[0] == count:
                with (authored.root / path).open("ab") as file:
                    file.write(SAVED)
        return data

    monkeypatch.setattr(Tree, "read", read)


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS.keys())
def test_a_catalog_saved_while_it_is_planned_keeps_the_save(
    authored: Project, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...], count: int
) -> None:
    assert authored.call("init", "dag", "sales/nightly", "--apply").code == 0
    save_after(monkeypatch, authored, CATALOG, count)
    said = authored.call(*command, "--apply")
    assert said.code in (0, 1)
    data = (authored.root / CATALOG).read_bytes()
    if count == 1:
        assert SAVED in data
    monkeypatch.undo()
    assert authored.call(*command, "--apply").code == 0
    assert SAVED in (authored.root / CATALOG).read_bytes() or count == 2


def test_a_root_saved_while_it_is_migrated_keeps_the_save(
    authored: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Flow and folder share the root's path: it is edited in place."""
    assert authored.call("authoring", "migrate", MANIFEST, "--to", "flow", "--apply").code == 0
    save_after(monkeypatch, authored, FLOW, 1)
    said = authored.call("authoring", "migrate", FLOW, "--to", "folder", "--apply")
    assert said.code == 1
    assert SAVED in (authored.root / FLOW).read_bytes()


@pytest.mark.parametrize("form", ["classic", "folder"])
def test_a_source_saved_while_it_is_migrated_is_a_conflict(
    authored: Project, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    """Else the catalog would name a root without the save, which nobody would ever run again."""
    source, to = MANIFEST, "flow"
    if form == "folder":
        authored.call("authoring", "migrate", MANIFEST, "--to", "folder", "--apply")
        (authored.root / MANIFEST).unlink()
        source, to = "workloads/sales/orders/processes.yaml", "classic"
    listed = (authored.root / CATALOG).read_bytes()
    save_after(monkeypatch, authored, source, 1)
    said = authored.call("authoring", "migrate", "workloads/sales/orders", "--to", to, "--apply")
    assert said.code == 1
    assert "DPONE_AUTHORING_SOURCE_CHANGED" in said.err
    assert (authored.root / CATALOG).read_bytes() == listed
    assert SAVED in (authored.root / source).read_bytes()
    monkeypatch.undo()
    said = authored.call("authoring", "migrate", "workloads/sales/orders", "--to", to, "--apply")
    assert said.code == 0
