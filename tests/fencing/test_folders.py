"""Files and folders of somebody else are for a person to mend, not for a later run."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import dpone
from dpone.adapters.sqlite.journal import SqliteJournal
from dpone.contracts.errors_fencing import (
    JournalInvalid,
    TargetInvalid,
    TargetReadOnly,
)
from tests.cli.ordinary import ordinary_folder, uid

# -- folders of others ---------------------------------------------------------------------------

AS_ORDINARY = """
import json, os, sys, tempfile
from pathlib import Path
import duckdb
import dpone
from dpone.contracts.errors import DponeError
from certification.target import unit
import dpone.adapters.duckdb.target, dpone.adapters.sqlite.journal, dpone.adapters.sqlite.target
import dpone.adapters.posix.identity
with tempfile.TemporaryDirectory() as warm:
    dpone.open_journal("sqlite:" + warm + "/journal.db").renew("x", "y", 1)
if os.geteuid() == 0:
    os.setgroups([])
    os.setuid(int(sys.argv[1]))
def said(call):
    try:
        return repr(call())
    except DponeError as error:
        return [error.code, error.exit_code]
    except BaseException as error:
        return repr(error)
place = sys.argv[2]
if sys.argv[3] == "journal":
    journal = dpone.open_journal("sqlite:" + place)
    print(json.dumps([said(lambda: journal.read("x")), said(lambda: journal.renew("x", "y", 1))]))
else:
    target = dpone.open_target(sys.argv[3] + ":" + place)
    mine = unit("i")
    print(json.dumps([
        said(lambda: target.ask("x", None)), said(lambda: target.install()),
        said(lambda: target.seal(mine)), said(lambda: target.commit(mine, print)),
    ]))
"""


def _as_ordinary(place: Path, what: str) -> Any:
    done = subprocess.run(
        [sys.executable, "-c", AS_ORDINARY, str(uid()), str(place), what],
        cwd=Path(__file__).resolve().parents[2],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture
def closed() -> Iterator[Path]:
    """A folder that its owner may enter and nobody else."""
    if os.geteuid() != 0:
        pytest.skip("only root can make a folder of somebody else")
    with ordinary_folder() as folder:
        inner = folder / ".dpone"
        inner.mkdir(mode=0o700)
        yield inner


def test_a_journal_in_a_folder_of_others_is_for_a_person(closed: Path) -> None:
    assert _as_ordinary(closed / "journal.db", "journal") == [[JournalInvalid.code, 4]] * 2


@pytest.mark.parametrize("kind", ["sqlite", "duckdb"])
def test_a_target_in_a_folder_of_others_is_for_a_person(closed: Path, kind: str) -> None:
    assert _as_ordinary(closed / "target", kind) == [[TargetReadOnly.code, 4]] * 4


@pytest.mark.parametrize("kind", ["sqlite", "duckdb"])
def test_a_folder_that_cannot_be_made_is_told_as_one(kind: str) -> None:
    target = dpone.open_target(f"{kind}:/proc/nowhere/target")
    with pytest.raises(TargetInvalid, match="its folder does not exist"):
        target.install()


def test_a_file_of_others_is_for_a_person(closed: Path) -> None:
    place = closed.parent / "target"
    connection = sqlite3.connect(place)
    connection.execute("CREATE TABLE dpone_fence(a)")
    connection.close()
    place.chmod(0o600)
    assert _as_ordinary(place, "sqlite") == [[TargetReadOnly.code, 4]] * 4


def test_an_unreadable_journal_is_no_internal_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where everybody is root: the file system's answer is what counts."""

    def refused(path: Path) -> bool:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("dpone.adapters.sqlite.journal.present", refused)
    with pytest.raises(JournalInvalid) as found:
        SqliteJournal(tmp_path / "journal.db").read("x")
    assert found.value.fields["cause"] == "permission denied"
