"""What a fresh pair of hands found: each ends in a code, a truth and a next step."""

from __future__ import annotations

from pathlib import Path

import pytest

from dpone.contracts.errors_authoring import PathInvalid
from dpone.contracts.publication import Change, Publication
from dpone.wiring import authoring_desk
from tests.loading.project import Project

MANIFEST = "workloads/sales/orders.yaml"


@pytest.mark.parametrize("command", [("init",), ("init", "domain", "sales")])
@pytest.mark.parametrize("apply", [(), ("--apply",)], ids=["plan", "apply"])
@pytest.mark.parametrize("name", ["absent", "dpone.toml"])
def test_a_root_that_is_no_folder_is_refused(
    authored: Project, command: tuple[str, ...], apply: tuple[str, ...], name: str
) -> None:
    said = authored.call(*command, "--root", str(authored.root / name), *apply)
    assert said.code == 2
    assert "DPONE_INIT_OPTION_INVALID" in said.err


def test_a_publication_into_a_missing_project_ends(tmp_path: Path) -> None:
    """It looped for ever over the root, whose parent is itself."""
    from dpone.authoring.publish import Publisher

    publisher = Publisher(authoring_desk(tmp_path / "absent").confined)
    with pytest.raises(PathInvalid):
        publisher.publish(Publication(root=Change(path="dpone.toml", after=b"")))


@pytest.mark.parametrize(
    ("head", "tail"),
    [("---\n", "...\n"), ("--- # kept\n", ""), ("", "... # kept\n"), ("", "---\n# kept\n")],
)
def test_document_markers_do_not_stop_a_migration(authored: Project, head: str, tail: str) -> None:
    manifest = authored.root / MANIFEST
    manifest.write_text(head + manifest.read_text() + tail)
    said = authored.call("authoring", "migrate", MANIFEST, "--to", "flow", "--apply")
    if tail.startswith("---"):
        # The empty second document is one too many.
        assert said.code == 1
        assert "pipeline.yaml" not in said.err
        return
    assert said.code == 0, said.err
    made = (authored.root / "workloads/sales/orders/pipeline.yaml").read_text()
    assert ("# kept" in made) == ("# kept" in head + tail)


@pytest.mark.parametrize("apply", [(), ("--apply",)], ids=["plan", "apply"])
def test_nothing_waits_where_there_is_no_folder(authored: Project, apply: tuple[str, ...]) -> None:
    said = authored.call("authoring", "recover", "nowhere/f.yaml", *apply)
    assert said.code == 2
    assert "Nothing is named nowhere/f.yaml" in said.err


def test_a_file_that_may_not_be_read_is_called_unreadable(
    authored: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its folder may well be writable; the advice must not send people there."""
    from dpone.adapters.posix.files import PosixFolder
    from dpone.ports.files import AccessDenied, Held

    honest = PosixFolder.hold

    def hold(folder: PosixFolder, leaf: str) -> Held | None:
        if leaf == "sales.yaml":
            raise AccessDenied(leaf)
        return honest(folder, leaf)

    monkeypatch.setattr(PosixFolder, "hold", hold)
    said = authored.call("init", "workload", "sales/late", "--apply")
    assert said.code == 4
    assert "DPONE_AUTHORING_FILE_UNREADABLE" in said.err


@pytest.mark.parametrize("which", ["folder", "file"])
def test_what_the_system_holds_fast_is_refused_before_anything_is_written(
    authored: Project, monkeypatch: pytest.MonkeyPatch, which: str
) -> None:
    """An append-only folder took the journal and the side file, and gave neither back."""
    from dpone.adapters.posix import glance
    from dpone.contracts.authoring import Look
    from tests.authoring.confined.test_refusals import tree

    def fast(look: Look, name: str) -> Look:
        return look._replace(immutable=True) if name == which else look

    at_name, at_descriptor = glance.at_name, glance.at_descriptor
    monkeypatch.setattr(glance, "at_name", lambda f, leaf: fast(at_name(f, leaf), "file"))
    monkeypatch.setattr(glance, "at_descriptor", lambda d: fast(at_descriptor(d), "folder"))
    before = tree(authored.root)
    said = authored.call("init", "workload", "sales/late", "--apply")
    assert said.code == 4
    assert "(immutable)" in said.err
    assert tree(authored.root) == before
