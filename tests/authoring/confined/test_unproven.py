"""Where nobody can prove that no editor has the file open: bytes are kept, or somebody vouches."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from dpone.adapters.posix import held
from dpone.adapters.posix.files import PosixFiles
from dpone.contracts.authoring import Proof, sha256_of
from faultinject import filesystems
from faultinject.writing import NEW, OLD
from tests.authoring.confined.studio import CATALOG, Single
from tests.authoring.confined.test_editors import leftovers
from tests.loading.project import Project

INIT = ("init", "workload", "sales/items", "--apply")
COMMANDS = {
    "init workload": INIT,
    "init dag": ("init", "dag", "sales/daily", "--workload", "orders", "--apply"),
    "catalog apply": (
        *("catalog", "apply", "sales", "--dag", "nightly", "--workload", "orders"),
        "--apply",
    ),
    "migrate": ("authoring", "migrate", "workloads/sales/orders", "--to", "flow", "--apply"),
}


@pytest.fixture
def unproven(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file system that cannot tell who has a file open."""
    monkeypatch.setattr("dpone.adapters.posix.held.PosixHeld.prove", lambda self: Proof.UNKNOWN)


@pytest.fixture
def there(authored: Project, request: pytest.FixtureRequest) -> Project:
    """A project with a second DAG, on such a file system from now on."""
    assert authored.call("init", "dag", "sales/nightly", "--apply").code == 0
    request.getfixturevalue("unproven")
    return authored


@pytest.mark.usefixtures("unproven")
def test_the_earlier_bytes_are_kept_and_told(single: Single) -> None:
    outcome = single.replace()
    assert (outcome.committed, outcome.cleanup_required) == (True, False)
    assert outcome.reason == "committed_earlier_bytes_kept"
    assert outcome.recovery_name is not None
    assert (single.root / outcome.recovery_name).read_bytes() == OLD
    assert single.shown == NEW


@pytest.mark.usefixtures("unproven")
def test_who_vouches_keeps_none(single: Single) -> None:
    confined = single.confined()
    confined.accept_unproven = True
    outcome = confined.replace_file_if_digest("f.yaml", expected_sha256=sha256_of(OLD), desired=NEW)
    assert (outcome.committed, outcome.recovery_name) == (True, None)
    assert confined.remove_file_if_owned(single.owned()).recovery_name is None
    assert single.names == set()


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_ends_well_and_names_what_it_kept(there: Project, command: str) -> None:
    before = (there.root / CATALOG).read_bytes()
    said = there.call(*COMMANDS[command], "--format", "json")
    (kept,) = said.report["unit_of_work"]["recovery_artifacts"]
    assert (said.code, said.report["status"]) == (0, "applied")
    assert said.report["counters"]["committed_cleanup_required"] == 0
    assert (there.root / kept).read_bytes() == before
    assert leftovers(there) == {kept}


def test_one_line_for_people_names_it(there: Project) -> None:
    said = there.call(*INIT)
    (kept,) = leftovers(there)
    assert said.code == 0
    assert [line.strip() for line in said.out.splitlines() if kept in line] == [
        f"earlier bytes kept: {kept}"
    ]


@pytest.mark.parametrize("command", COMMANDS)
def test_an_option_vouches_for_a_command(there: Project, command: str) -> None:
    said = there.call(*COMMANDS[command], "--accept-unproven", "--format", "json")
    assert (said.code, said.report["status"]) == (0, "applied")
    assert said.report["unit_of_work"]["recovery_artifacts"] == []
    assert leftovers(there) == set()


# -- where that is so

MAGIC = {
    "FUSE": 0x65735546,
    "NFS": 0x6969,
    "overlay": 0x794C7630,
    "SMB": 0xFE534D42,
    "one that cannot be told": 0,
}


def proof_of(root: Path) -> str:
    """What the adapter can prove of `f.yaml`."""
    with PosixFiles(root).folder("") as folder:
        found = folder.hold("f.yaml")
        assert found is not None
        try:
            return found.prove().value
        finally:
            found.close()


@pytest.mark.skipif(sys.platform != "linux", reason="UNVERIFIED: leases are asked for on Linux")
@pytest.mark.parametrize("kind", MAGIC)
def test_what_was_not_measured_is_not_believed(
    single: Single, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    if proof_of(single.root) != Proof.PROVEN:
        pytest.skip("UNVERIFIED: nothing can be proven here in the first place")
    monkeypatch.setattr(held, "_magic", lambda _: MAGIC[kind])
    assert proof_of(single.root) == Proof.UNKNOWN


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may become another user")
def test_another_owner_s_file_cannot_be_proven(single: Single) -> None:
    single.root.chmod(0o755)
    single.path.chmod(0o644)
    assert filesystems.as_user(1001, 1500, lambda: proof_of(single.root)) == Proof.UNKNOWN
    os.chown(single.path, 1001, 1500)
    assert filesystems.as_user(1001, 1500, lambda: proof_of(single.root)) == Proof.PROVEN
