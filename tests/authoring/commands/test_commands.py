"""Every command twice, as plan and as apply: closed receipts, exit codes, aliases."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from dpone.authoring.report import diff_of
from dpone.contracts.authoring_report import (
    DIFF_CHARS_MAX,
    AuthoringReport,
    MigrationReport,
    RecoveryReport,
)
from dpone.contracts.run_report import ErrorReport
from tests.authoring.confined.studio import CATALOG, At, codes
from tests.loading.project import Project, Said

MANIFEST = "workloads/sales/orders"
COMMANDS = {
    "init": ("init",),
    "init project": ("init", "project"),
    "init domain": ("init", "domain", "shop", "--owner-team", "shop", "--owner-contact", "s@x.y"),
    "init workload": ("init", "workload", "sales/items", "--dag", "daily"),
    "init workload, flow": ("init", "workload", "sales/items", "--layout", "flow"),
    "init workload, folder": ("init", "workload", "sales/items", "--layout", "folder"),
    "init dag": ("init", "dag", "sales/daily", "--workload", "orders", "--timezone", "Europe/Oslo"),
    "catalog apply": ("catalog", "apply", "sales", "--workload", "orders", "--owner",
                      "data_platform"),
    "migrate to flow": ("authoring", "migrate", MANIFEST, "--to", "flow"),
    "migrate to folder": ("authoring", "migrate", MANIFEST, "--to", "folder"),
    "workload init": ("workload", "init", "sales/items"),
    "migrate authoring": ("migrate", "authoring", MANIFEST, "--to", "flow"),
}  # fmt: skip
UNCHANGED = ("init", "init project", "catalog apply")


def decoded(said: Said) -> Any:
    """Exactly one object on stdout, of a closed contract."""
    lines = said.out.splitlines()
    assert len(lines) == 1, said.out
    value = json.loads(lines[0])
    kinds = {
        "dpone.authoring-report.v1": AuthoringReport,
        "dpone.authoring-migration.v1": MigrationReport,
        "dpone.authoring-recovery.v1": RecoveryReport,
        "dpone.error.v1": ErrorReport,
    }
    report = msgspec.json.decode(lines[0], type=kinds[value["schema"]])
    assert report.exit_code == said.code
    return report


def call(project: Project, *arguments: str) -> Any:
    return decoded(project.call(*arguments, "--format", "json"))


@pytest.mark.parametrize("name", COMMANDS)
def test_plan_apply_and_apply_again(authored: Project, name: str) -> None:
    before = authored.snapshot()
    plan = call(authored, *COMMANDS[name])
    assert (plan.exit_code, plan.mode, plan.unit_of_work.status) == (0, "plan", "not_started")
    assert plan.status == ("no_op" if name in UNCHANGED else "ready")
    assert authored.snapshot() == before
    first = call(authored, *COMMANDS[name], "--apply")
    assert (first.exit_code, first.mode, first.passed) == (0, "apply", True)
    assert first.status == ("no_op" if name in UNCHANGED else "applied")
    assert first.plan_id == plan.plan_id
    assert [(c.path, c.action) for c in first.changes] == [(c.path, c.action) for c in plan.changes]
    after = authored.snapshot()
    again = call(authored, *COMMANDS[name], "--apply")
    assert (again.exit_code, again.status) == (0, "no_op")
    assert {change.action for change in again.changes} == {"no_op"}
    assert authored.snapshot() == after
    assert call(authored, *COMMANDS[name]).status == "no_op"


@pytest.mark.parametrize("name", COMMANDS)
def test_the_words_for_people(authored: Project, name: str) -> None:
    said = authored.call(*COMMANDS[name])
    assert said.code == 0
    if name not in UNCHANGED:
        assert "Nothing was written. Add --apply" in said.out
        assert "+++ b/" in said.out
    done = authored.call(*COMMANDS[name], "--apply")
    assert "Nothing was written" not in done.out
    again = authored.call(*COMMANDS[name], "--apply")
    assert "everything is as wanted" in again.out
    assert said.err == done.err == again.err == ""


def test_an_alias_does_the_same(authored: Project) -> None:
    first = call(authored, "init", "workload", "sales/items")
    other = call(authored, "workload", "init", "sales/items")
    assert first == other
    first = call(authored, "authoring", "migrate", MANIFEST, "--to", "flow")
    assert first == call(authored, "migrate", "authoring", MANIFEST, "--to", "flow")


MIGRATION = {
    "kind", "schema", "passed", "mode", "status", "plan_id", "source", "target", "changes",
    "retained_files", "warnings", "errors",
}  # fmt: skip


def test_a_migration_s_answer_keeps_the_fields_in_use(authored: Project) -> None:
    """Programs that read the answers of earlier releases find what they look for."""
    for more, mode, status in (
        ((), "plan", "ready"), (("--apply",), "apply", "applied"), ((), "plan", "no_op"),
    ):  # fmt: skip
        said = authored.call(*COMMANDS["migrate authoring"], *more, "--format", "json")
        report = said.report
        assert set(report) >= MIGRATION
        assert (report["kind"], report["schema"]) == (
            "authoring_migration",
            "dpone.authoring-migration.v1",
        )
        assert (report["passed"], report["mode"], report["status"]) == (True, mode, status)
        for side in ("source", "target"):
            assert set(report[side]) == {"mode", "semantic_fingerprint", "path", "sha256"}
        fingerprints = {report[side]["semantic_fingerprint"] for side in ("source", "target")}
        assert len(fingerprints) == 1
        for change in report["changes"]:
            assert set(change) >= {
                "action", "path", "before_sha256", "after_sha256", "unified_diff",
            }  # fmt: skip
            assert change["action"] in ("create", "modify", "no_op")


DETAILS = {
    "mode", "layout", "domain", "workload_id", "dag_id", "workload_set", "manifest", "validation",
    "next_commands", "rollback_journal", "unit_of_work",
}  # fmt: skip


def test_a_workload_s_answer_keeps_the_fields_in_use(authored: Project) -> None:
    """As above, for the answers of `dpone workload init`."""
    for more, mode, unit in (
        ((), "plan", "not_started"), (("--apply",), "apply", "committed"),
        (("--apply",), "apply", "committed"),
    ):  # fmt: skip
        report = authored.call("workload", "init", "sales/items", *more, "--format", "json").report
        assert all(
            set(change) >= {"action", "path", "message", "diff"} for change in report["changes"]
        )
        assert [it["diff"] for it in report["changes"]] == [
            it["unified_diff"] for it in report["changes"]
        ]
        details = report["details"]
        assert set(details) >= DETAILS
        assert (details["mode"], details["unit_of_work"]["status"]) == (mode, unit)
        assert details["unit_of_work"] == report["unit_of_work"]
        assert details["next_commands"] == report["next_commands"] != []
        assert details["rollback_journal"] is report["rollback_journal"] is None
    assert report["status"] == "no_op"


def test_the_durable_receipt_is_named_while_it_is_there(authored: Project) -> None:
    def fail() -> None:
        raise RuntimeError

    command = ("workload", "init", "sales/items", "--apply", "--format", "json")
    report = authored.call(*command, probe=At("authoring.publish:after", fail)).report
    assert (authored.root / report["rollback_journal"]).is_file()
    assert report["details"]["rollback_journal"] == report["rollback_journal"]
    assert authored.call(*command).report["rollback_journal"] is None


@pytest.mark.parametrize("ending", [b"\r", b"\r\n"])
def test_a_catalog_with_other_line_endings_is_repointed(authored: Project, ending: bytes) -> None:
    path = authored.root / CATALOG
    before = path.read_bytes().replace(b"\n", ending)
    path.write_bytes(before)
    said = authored.call("authoring", "migrate", MANIFEST, "--to", "flow", "--apply")
    old, new = f"{MANIFEST}.yaml".encode(), f"{MANIFEST}/pipeline.yaml".encode()
    assert (said.code, path.read_bytes()) == (0, before.replace(old, new))


@pytest.mark.parametrize("name", ["orders.yml", "renamed.yaml"])
def test_a_manifest_under_another_name_is_repointed_where_the_catalog_names_it(
    authored: Project, name: str
) -> None:
    path, folder = authored.root / CATALOG, MANIFEST.rpartition("/")[0]
    (authored.root / f"{MANIFEST}.yaml").rename(authored.root / folder / name)
    path.write_text(path.read_text().replace(f"{MANIFEST}.yaml", f"{folder}/{name}"))
    called = f"{folder}/{name.removesuffix('.yml')}"
    assert authored.call("authoring", "migrate", called, "--to", "flow", "--apply").code == 0
    root = f"{folder}/{name.partition('.')[0]}/pipeline.yaml"
    assert (authored.root / root).is_file()
    assert f"manifest: {root}" in path.read_text()
    again = authored.call(
        "authoring", "migrate", root, "--to", "flow", "--apply", "--format", "json"
    )
    assert again.report["status"] == "no_op"


def test_a_value_in_the_wrong_place_is_not_repeated(authored: Project) -> None:
    """It may be a secret; the place is enough."""
    every = "{interval: {column: day, every: 'hunter2 - at `$.x`'}}"
    path = f"{MANIFEST}.yaml"
    kept = [
        line for line in (authored.root / path).read_text().splitlines() if "partition" not in line
    ]
    authored.write(path, "\n".join([*kept, f"partition: {every}", ""]))
    for command in (
        ("authoring", "migrate", MANIFEST, "--to", "flow"),
        ("route", "validate", path),
    ):
        said = authored.call(*command)
        assert said.code != 0
        assert "hunter2" not in said.out + said.err
        assert "Invalid enum value" in said.out + said.err
        assert "$.partition.interval.every" in said.out + said.err


def test_recover_where_nothing_waits(authored: Project) -> None:
    for more in ((), ("--keep",), ("--apply",), ("--keep", "--apply")):
        report = call(authored, "authoring", "recover", CATALOG, *more)
        assert (report.exit_code, report.status) == (0, "none")


def test_recover_from_a_folder_below(authored: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = authored.root / "workloads/sales/.orders.yaml.dpone-transaction.json"
    journal.write_bytes(b"torn")
    below = Project(authored.root / "workloads/sales", authored._capture)
    assert call(below, "authoring", "recover", "orders.yaml").status == "pending"
    report = call(below, "authoring", "recover", "orders.yaml", "--apply")
    assert (report.exit_code, report.status) == (4, "recovery_required")
    assert report.counters.recovery_required == 1
    assert call(below, "authoring", "recover", "orders.yaml", "--apply").exit_code == 0


def test_a_first_project_from_nothing(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    project = Project(place / "new", capsys)
    project.root.mkdir()
    assert call(project, "init").status == "ready"
    assert list(project.root.iterdir()) == []
    assert call(project, "init", "--apply").status == "applied"
    assert set(project.snapshot()) == {
        "dpone.toml",
        ".gitignore",
        "dpone_workloads/gitops/gitops.yaml",
    }


def test_an_ignore_file_that_is_there_is_only_advised(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    project = Project(place / "new", capsys)
    project.write(".gitignore", "mine\n")
    report = call(project, "init", "--apply")
    assert report.status == "applied"
    assert any(".dpone-*" in warning for warning in report.warnings)
    assert (project.root / ".gitignore").read_text() == "mine\n"
    assert call(project, "init", "--apply").status == "no_op"


# -- catalogs that people wrote --------------------------------------------------------------------

DAG = {
    "schedule": '"0 6 * * *"',
    "start_date": '"2026-01-01"',
    "timezone": '"UTC"',
    "catchup": "false",
    "max_active_runs": "1",
    "default_args": '{owner: "data_platform", retries: 2}',
    "workloads": '["orders"]',
    "description": '"Loads of daily"',
}
INIT_DAG = ("init", "dag", "sales/daily", "--workload", "orders", "--apply")


def with_dag(project: Project, **fields: str) -> bytes:
    """A catalog with the generated DAG in flow style, some fields otherwise; '' leaves one out."""
    given = {**DAG, **fields}
    text = ", ".join(f"{key}: {value}" for key, value in given.items() if value)
    found = (
        (project.root / CATALOG)
        .read_text()
        .replace("dags: {}", f"dags:  {{daily: {{{text}}} }} # mine")
    )
    project.write(CATALOG, found)
    assert "# mine" in found
    return found.encode()


def test_an_equal_dag_stays_as_it_is_written(authored: Project) -> None:
    before = with_dag(authored)
    report = call(authored, *INIT_DAG)
    assert (report.exit_code, report.status) == (0, "no_op")
    assert (authored.root / CATALOG).read_bytes() == before


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("schedule", '"0 7 * * *"'),
        ("start_date", '"2026-01-02"'),
        ("timezone", '"Europe/Oslo"'),
        ("catchup", "true"),
        ("catchup", '"false"'),
        ("max_active_runs", "2"),
        ("default_args", '{owner: "somebody", retries: 2}'),
        ("default_args", '{owner: "data_platform", retries: 3}'),
        ("default_args", '{owner: "data_platform", retries: "2"}'),
        ("workloads", "[]"),
        ("workloads", '["orders", "orders"]'),
        ("description", ""),
        ("pool", '"mine"'),
    ],
)
def test_a_dag_that_differs_in_one_field_is_a_conflict(
    authored: Project, field: str, value: str
) -> None:
    before = with_dag(authored, **{field: value})
    said = authored.call(*INIT_DAG, "--format", "json")
    assert (said.code, codes(said)) == (1, ["DPONE_WORKLOAD_INIT_DOMAIN_CONFLICT"])
    assert field in said.report["fields"]["fields"]
    assert (authored.root / CATALOG).read_bytes() == before


def test_a_workload_with_another_owner_or_manifest_is_a_conflict(authored: Project) -> None:
    before = authored.snapshot()
    said = authored.call(
        "init", "workload", "sales/orders", "--owner", "me", "--apply", "--format", "json"
    )
    assert (said.code, said.report["fields"]["fields"]) == (1, "owner")
    said = authored.call(
        "init", "workload", "sales/orders", "--layout", "flow", "--apply", "--format", "json"
    )
    assert (said.code, said.report["fields"]["fields"]) == (1, "manifest")
    said = authored.call(
        "init", "workload", "sales/orders", "--table", "x", "--apply", "--format", "json"
    )
    assert codes(said) == ["DPONE_WORKLOAD_INIT_SCAFFOLD_CONFLICT"]
    said = authored.call(
        "init", "domain", "sales", "--owner-team", "me", "--apply", "--format", "json"
    )
    assert codes(said) == ["DPONE_WORKLOAD_INIT_OWNERSHIP_CONFLICT"]
    assert authored.snapshot() == before


@pytest.mark.parametrize("field", ["pool: mine", "owner:", "tags: [a]"])
def test_a_workload_with_a_field_of_its_own_is_a_conflict(authored: Project, field: str) -> None:
    catalog = authored.root / CATALOG
    text = catalog.read_text().replace("    owner: data_platform\n", f"    {field}\n")
    if not field.startswith("owner"):
        text = text.replace(f"    {field}\n", f"    owner: data_platform\n    {field}\n")
    authored.write(CATALOG, text)
    before = authored.snapshot()
    said = authored.call("init", "workload", "sales/orders", "--apply", "--format", "json")
    assert (said.code, codes(said)) == (1, ["DPONE_WORKLOAD_INIT_DOMAIN_CONFLICT"])
    assert field.partition(":")[0] in said.report["fields"]["fields"]
    assert authored.snapshot() == before


def test_catalog_apply_adds_a_member_or_an_owner_and_touches_no_other_line(
    authored: Project,
) -> None:
    assert authored.call("init", "workload", "sales/items", "--apply").code == 0
    text = (authored.root / CATALOG).read_text()
    text = text.replace("dags: {}", "dags:\n  daily:  # mine\n    workloads:\n    - 'orders'")
    text = text.replace("sales/items.yaml\n    owner: data_platform", "sales/items.yaml")
    authored.write(CATALOG, text)
    member = ("catalog", "apply", "sales", "--dag", "daily", "--workload", "items")
    owner = ("catalog", "apply", "sales", "--workload", "items", "--owner", "shop")
    for command, line in ((member, "    - items\n"), (owner, "    owner: shop\n")):
        before = (authored.root / CATALOG).read_text().splitlines(keepends=True)
        assert call(authored, *command, "--apply").status == "applied"
        after = (authored.root / CATALOG).read_text().splitlines(keepends=True)
        after.remove(line)
        assert after == before
        assert call(authored, *command, "--apply").status == "no_op"


MALFORMED: dict[str, str | bytes] = {
    "a list": "- a\n",
    "a text": "hello\n",
    "empty": "",
    "another domain": "domain: shop\nworkloads: {}\n",
    "another schema": "schema: dpone.domain-catalog.v9\ndomain: sales\n",
    "workloads a list": "domain: sales\nworkloads: []\n",
    "dags a text": "domain: sales\nworkloads: {}\ndags: many\n",
    "key twice": "domain: sales\nworkloads: {}\nworkloads: {}\n",
    "not YAML": "domain: [sales\n",
    "a tab": "domain:\n\t- sales\n",
    "not UTF-8": b"domain: sales\xff\n",
    "an alias": "domain: sales\nworkloads: &w {}\ndags: *w\n",
    "deep": "domain: sales\nworkloads: " + "[" * 5000 + "]" * 5000 + "\n",
    "a bomb": "domain: sales\na: &a [x, x, x]\nb: &b [*a, *a, *a]\nworkloads: [*b, *b]\n",
}


@pytest.mark.parametrize("name", MALFORMED)
def test_a_catalog_of_another_shape_is_refused_and_kept(authored: Project, name: str) -> None:
    authored.write(CATALOG, MALFORMED[name])
    before = authored.snapshot()
    for command in (COMMANDS["init workload"], INIT_DAG):
        report = call(authored, *command, *(() if "--apply" in command else ("--apply",)))
        assert isinstance(report, ErrorReport)
        assert report.exit_code in (1, 2, 4)
        assert report.code != "DPONE_INTERNAL"
        assert authored.snapshot() == before


@pytest.mark.parametrize(
    "line",
    [
        "# api_key: {}",
        "x_password: {}",
        "- token: {}",
        "  warehouse: {{kind: postgres, password: {}}}",
        "  'client-secret' = {}",
        "# see postgres://me:{}@db/x",
        "  DSN:   host=db password={}",
    ],
)
def test_secrets_are_struck_out_of_a_diff(line: str) -> None:
    secret = "hunter2-secret"
    text = "a: b\n" + line.format(secret) + "\nc: d\n"
    for before in (None, b"a: b\nc: e\n"):
        shown = diff_of("f.yaml", before, text.encode())
        assert secret not in shown
        assert "[redacted]" in shown
        assert "+c: d" in shown


def test_secrets_in_the_comments_of_a_manifest_are_struck_out(authored: Project) -> None:
    path = "workloads/sales/orders.yaml"
    text = (authored.root / path).read_text()
    authored.write(path, f"# api_key: hunter2-secret\n{text}")
    for arguments in (("--format", "json"), ()):
        said = authored.call("authoring", "migrate", MANIFEST, "--to", "flow", *arguments)
        assert said.code == 0, said.err
        assert "hunter2-secret" not in said.out


def test_a_long_diff_is_cut() -> None:
    shown = diff_of("f.yaml", None, b"x: y\n" * 10_000)
    assert len(shown) < DIFF_CHARS_MAX + 100
    assert shown.endswith("[cut]")
