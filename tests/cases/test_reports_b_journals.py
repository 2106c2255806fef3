"""Public reports of records that a power failure left torn, empty or senseless."""

from __future__ import annotations

import pytest

from dpone.contracts.errors_authoring import RecoveryRequired
from faultinject.writing import NEW, OLD
from tests.authoring.confined.studio import CATALOG, JOURNAL, Single
from tests.loading.project import Project

pytest_plugins = ("tests.authoring.confined.fixtures",)

TORN = {
    "empty": b"",
    "all NUL": b"\0" * 600,
    "half": b'{"phase":1,"desired_identity":"00',
    "huge": b'{"phase":1}' + b" " * (1 << 20),
    "another leaf": b'{"phase":1,"target_name":"g.yaml"}\n',
    "no object": b"[1, 2]\n",
    "not UTF-8": b"\xff\xfe" * 40,
}


@pytest.mark.parametrize("torn", TORN, ids=lambda name: name.replace(" ", "_"))
def test_b08_a_torn_journal_is_kept_and_the_file_works_again(single: Single, torn: str) -> None:
    (single.root / JOURNAL).write_bytes(TORN[torn])
    (single.root / ".f.yaml.dpone-cas-0123").write_bytes(NEW)
    with pytest.raises(RecoveryRequired) as caught:
        single.replace()
    assert caught.value.exit_code == 4
    assert caught.value.fields["reason"] == "journal_invalid"
    name = str(caught.value.fields["recovery_name"])
    assert (single.root / name).read_bytes() == TORN[torn]
    assert single.shown == OLD
    assert (single.root / ".f.yaml.dpone-cas-0123").read_bytes() == NEW
    # Nothing else is asked of anybody.
    assert single.replace().committed
    assert single.names == {"f.yaml", name, ".f.yaml.dpone-cas-0123"}


@pytest.mark.parametrize("torn", TORN, ids=lambda name: name.replace(" ", "_"))
@pytest.mark.parametrize("which", ["transaction", "publish"])
def test_b08_the_command_says_what_was_kept_and_goes_on(
    authored: Project, torn: str, which: str
) -> None:
    folder, _, leaf = CATALOG.rpartition("/")
    authored.write(f"{folder}/.{leaf}.dpone-{which}.json", TORN[torn])
    before = (authored.root / CATALOG).read_bytes()
    command = ("init", "workload", "sales/items", "--apply", "--format", "json")
    said = authored.call(*command)
    assert said.code == 4
    report = said.report
    assert report["code"] == "DPONE_AUTHORING_RECOVERY_REQUIRED"
    kept = report["fields"]["recovery_name"]
    assert kept in report["known"]
    assert "dpone authoring recover" in report["next"]
    assert "Traceback" not in said.err
    assert (authored.root / CATALOG).read_bytes() == before
    found = [path for path in (authored.root / folder).iterdir() if path.name in kept]
    assert [path.read_bytes() for path in found] == [TORN[torn]]
    again = authored.call(*command)
    assert (again.code, again.report["status"]) == (0, "applied")
