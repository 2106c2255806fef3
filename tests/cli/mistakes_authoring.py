"""The mistakes that people make with the commands that write files, each with its code."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import NamedTuple

from tests.loading.project import Project

CATALOG = "dpone_workloads/gitops/domains/sales.yaml"
SET = "dpone_workloads/gitops/gitops.yaml"
MANIFEST = "workloads/sales/orders.yaml"


class Mistake(NamedTuple):
    """One mistake: how it is made, the command, and what must be said."""

    name: str
    code: str
    exit_code: int
    arguments: tuple[str, ...]
    make: Callable[[Project], object] = lambda project: None


def writes(path: str, data: str | bytes) -> Callable[[Project], object]:
    """A file of the project."""
    return lambda project: project.write(path, data)


def link(path: str) -> Callable[[Project], object]:
    """A link where a file was."""

    def make(project: Project) -> None:
        (project.root / path).rename(project.root / "moved")
        (project.root / path).symlink_to(project.root / "moved")

    return make


def without(path: str) -> Callable[[Project], object]:
    """A file that is missing."""
    return lambda project: (project.root / path).unlink()


def fragment(data: str | bytes) -> Callable[[Project], object]:
    """A folder form with one fragment."""

    def make(project: Project) -> None:
        project.write("p/pipeline.yaml", "kind: dpone.flow.v1\nfragments: [a.yaml]\n")
        project.write("p/a.yaml", data)

    return make


def pipe(path: str) -> Callable[[Project], object]:
    """A pipe where a file was."""

    def make(project: Project) -> None:
        (project.root / path).unlink()
        os.mkfifo(project.root / path)

    return make


NEW = ("init", "workload", "sales/items")
DAG = ("init", "dag", "sales/daily")
MIGRATE = ("authoring", "migrate", "workloads/sales/orders")
RECOVER = ("authoring", "recover")
PIPELINE = "kind: dpone.flow.v1\nmetadata: {id: x, color: red}\nprocesses:\n  - "
TWO = "kind: dpone.flow.v1\nprocesses:\n"
ROUTE = (
    "{schema: dpone.route.v1, route: a, source: {csv: a.csv}, strategy: append, "
    "target: {sqlite: w, table: t}}\n"
)
SECOND = ROUTE.replace("route: a", "route: b")

MISTAKES = (
    Mistake("no argument", "DPONE_USAGE", 2, ("init", "workload")),
    Mistake("unknown option", "DPONE_USAGE", 2, (*NEW, "--color", "red")),
    Mistake("unknown subcommand", "DPONE_USAGE", 2, ("init", "pipeline", "x")),
    Mistake("folder before the subcommand", "DPONE_INIT_OPTION_INVALID", 2,
            ("init", "--root", ".", "domain", "shop")),
    Mistake("apply before the subcommand", "DPONE_INIT_OPTION_INVALID", 2,
            ("init", "--apply", "domain", "shop")),
    Mistake("schedule without a DAG", "DPONE_INIT_OPTION_INVALID", 2,
            (*NEW, "--schedule", "@daily")),
    Mistake("retries without a DAG", "DPONE_INIT_OPTION_INVALID", 2, (*NEW, "--retries", "2")),
    Mistake("no domain in the name", "DPONE_INIT_OPTION_INVALID", 2, ("init", "workload", "items")),
    Mistake("three parts in the name", "DPONE_INIT_OPTION_INVALID", 2, ("init", "dag", "a/b/c")),
    Mistake("upper case", "DPONE_INIT_NAME_INVALID", 2, ("init", "domain", "Sales")),
    Mistake("climbing name", "DPONE_INIT_NAME_INVALID", 2, ("init", "domain", "../x")),
    Mistake("dots for a name", "DPONE_INIT_NAME_INVALID", 2, ("init", "workload", "sales/..")),
    Mistake("one letter", "DPONE_INIT_NAME_INVALID", 2, ("init", "domain", "s")),
    Mistake("long name", "DPONE_INIT_NAME_INVALID", 2, ("init", "domain", "s" * 129)),
    Mistake("not ASCII", "DPONE_INIT_NAME_INVALID", 2, ("init", "domain", "größe")),
    Mistake("a line break in a name", "DPONE_INIT_NAME_INVALID", 2, ("init", "domain", "sales\n")),
    Mistake("DAG with a space", "DPONE_INIT_NAME_INVALID", 2, ("init", "dag", "sales/a b")),
    Mistake("blank owner", "DPONE_INIT_NAME_INVALID", 2,
            ("init", "domain", "shop", "--owner-team", " ")),
    Mistake("owner of two lines", "DPONE_INIT_NAME_INVALID", 2,
            ("init", "domain", "shop", "--owner-contact", "a\nb")),
    Mistake("blank owner of a workload", "DPONE_INIT_NAME_INVALID", 2, (*NEW, "--owner", " ")),
    Mistake("no owner of a DAG", "DPONE_INIT_NAME_INVALID", 2, (*DAG, "--owner", "")),
    Mistake("blank new owner", "DPONE_INIT_NAME_INVALID", 2,
            ("catalog", "apply", "sales", "--workload", "orders", "--owner", " ")),
    Mistake("domain that climbs in the catalog", "DPONE_INIT_NAME_INVALID", 2,
            ("catalog", "apply", "../x", "--workload", "orders", "--owner", "me")),
    Mistake("a day that no month has", "DPONE_INIT_OPTION_INVALID", 2,
            (*DAG, "--start-date", "2026-02-31")),
    Mistake("statement without a query", "DPONE_INIT_OPTION_INVALID", 2,
            (*NEW, "--sql", "SELECT 1")),
    Mistake("unknown domain", "DPONE_INIT_DOMAIN_UNKNOWN", 1, ("init", "workload", "shop/items")),
    Mistake("unknown domain of a DAG", "DPONE_INIT_DOMAIN_UNKNOWN", 1, ("init", "dag", "shop/d")),
    Mistake("unknown workload", "DPONE_WORKLOAD_INIT_INVALID_REFERENCE", 1,
            (*DAG, "--workload", "absent")),
    Mistake("unknown DAG", "DPONE_WORKLOAD_INIT_INVALID_REFERENCE", 1,
            ("catalog", "apply", "sales", "--dag", "absent", "--workload", "orders")),
    Mistake("nothing to do", "DPONE_INIT_OPTION_INVALID", 2, ("catalog", "apply", "sales")),
    Mistake("another owner", "DPONE_WORKLOAD_INIT_DOMAIN_CONFLICT", 1,
            ("catalog", "apply", "sales", "--workload", "orders", "--owner", "me")),
    Mistake("unknown source", "DPONE_INIT_OPTION_INVALID", 2, (*NEW, "--source", "xml")),
    Mistake("unknown target", "DPONE_INIT_OPTION_INVALID", 2, (*NEW, "--sink", "excel")),
    Mistake("unknown strategy", "DPONE_INIT_OPTION_INVALID", 2, (*NEW, "--strategy", "upsert")),
    Mistake("merge without a key", "DPONE_INIT_OPTION_INVALID", 2, (*NEW, "--strategy", "merge")),
    Mistake("key without merge", "DPONE_INIT_OPTION_INVALID", 2, (*NEW, "--key", "id")),
    Mistake("unknown layout", "DPONE_INIT_OPTION_INVALID", 2, (*NEW, "--layout", "batch")),
    Mistake("unknown partition", "DPONE_WORKLOAD_INIT_MANIFEST_INVALID", 2,
            (*NEW, "--partition", "month")),
    Mistake("refresh in parts", "DPONE_WORKLOAD_INIT_MANIFEST_INVALID", 2,
            (*NEW, "--partition", "file")),
    Mistake("negative retries", "DPONE_USAGE", 2, (*DAG, "--retries", "-1")),
    Mistake("project file is no TOML", "DPONE_INIT_PROJECT_CONFLICT", 1, ("init",),
            writes("dpone.toml", "environment =\n")),
    Mistake("project file is not UTF-8", "DPONE_INIT_PROJECT_CONFLICT", 1, ("init",),
            writes("dpone.toml", b"\xff\n")),
    Mistake("project file with a stranger", "DPONE_INIT_PROJECT_CONFLICT", 1, ("init",),
            writes("dpone.toml", "retry = 1\n")),
    Mistake("set without the pattern", "DPONE_CATALOG_INVALID", 1, ("init",),
            writes(SET, "catalogs: []\n")),
    Mistake("set is a link", "DPONE_AUTHORING_PATH_UNSAFE", 4, NEW, link(SET)),
    Mistake("catalog is a link", "DPONE_AUTHORING_PATH_UNSAFE", 4, NEW, link(CATALOG)),
    Mistake("catalog is a pipe", "DPONE_AUTHORING_PATH_UNSAFE", 4, NEW, pipe(CATALOG)),
    Mistake("catalog is missing", "DPONE_INIT_DOMAIN_UNKNOWN", 1, NEW, without(CATALOG)),
    Mistake("catalog is huge", "DPONE_AUTHORING_FILE_UNREADABLE", 4, NEW,
            writes(CATALOG, b"#" * (5 << 20))),
    Mistake("catalog is a list", "DPONE_CATALOG_INVALID", 1, NEW, writes(CATALOG, "- a\n")),
    Mistake("workload exists otherwise", "DPONE_WORKLOAD_INIT_SCAFFOLD_CONFLICT", 1, NEW,
            writes("workloads/sales/items.yaml", "route: x\n")),
    Mistake("folder in the way", "DPONE_AUTHORING_PATH_UNSAFE", 4, NEW,
            writes("workloads/sales/items.yaml/inside", "x")),
    Mistake("file in the way", "DPONE_AUTHORING_PATH_INVALID", 4,
            (*NEW, "--layout", "flow"), writes("workloads/sales/items", "x")),
    Mistake("no such workload", "DPONE_AUTHORING_MIGRATION_TARGET_INVALID", 4,
            ("authoring", "migrate", "workloads/sales/absent", "--to", "flow")),
    Mistake("migration climbs out", "DPONE_AUTHORING_PATH_INVALID", 4,
            ("authoring", "migrate", "../x.yaml", "--to", "flow")),
    Mistake("unknown form", "DPONE_INIT_OPTION_INVALID", 2, (*MIGRATE, "--to", "batch")),
    Mistake("unknown declared form", "DPONE_INIT_OPTION_INVALID", 2,
            (*MIGRATE, "--to", "flow", "--from", "batch")),
    Mistake("plan and apply", "DPONE_INIT_OPTION_INVALID", 2,
            (*MIGRATE, "--to", "flow", "--plan", "--apply")),
    Mistake("another form is there", "DPONE_AUTHORING_MIGRATION_SOURCE_MODE_MISMATCH", 2,
            (*MIGRATE, "--to", "flow", "--from", "folder")),
    Mistake("manifest is no route", "DPONE_AUTHORING_MIGRATION_SOURCE_INVALID", 1,
            (*MIGRATE, "--to", "flow"), writes(MANIFEST, "route: x\n")),
    Mistake("manifest is a link", "DPONE_AUTHORING_PATH_UNSAFE", 4,
            (*MIGRATE, "--to", "flow"), link(MANIFEST)),
    Mistake("two processes into one", "DPONE_AUTHORING_MIGRATION_RECIPE_UNSUPPORTED", 1,
            ("authoring", "migrate", "p/pipeline.yaml", "--to", "classic"),
            writes("p/pipeline.yaml", f"{TWO}  - {ROUTE}  - {SECOND}")),
    Mistake("metadata would be lost", "DPONE_AUTHORING_MIGRATION_RECIPE_UNSUPPORTED", 1,
            ("authoring", "migrate", "p/pipeline.yaml", "--to", "classic"),
            writes("p/pipeline.yaml", PIPELINE + ROUTE)),
    Mistake("fragment is missing", "DPONE_AUTHORING_MIGRATION_SOURCE_INVALID", 1,
            ("authoring", "migrate", "p", "--to", "flow"),
            writes("p/pipeline.yaml", "kind: dpone.flow.v1\nfragments: [absent.yaml]\n")),
    Mistake("fragment climbs out", "DPONE_AUTHORING_MIGRATION_SOURCE_INVALID", 1,
            ("authoring", "migrate", "p", "--to", "flow"),
            writes("p/pipeline.yaml", "kind: dpone.flow.v1\nfragments: [../../x.yaml]\n")),
    Mistake("fragment is not UTF-8", "DPONE_YAML_UNREADABLE", 4,
            ("authoring", "migrate", "p", "--to", "flow"), fragment(b"processes: # \xff\n")),
    Mistake("fragment with a key of its own", "DPONE_AUTHORING_MIGRATION_RECIPE_UNSUPPORTED", 1,
            ("authoring", "migrate", "p", "--to", "flow"),
            fragment(f"processes:\n  - {ROUTE}notes: mine\n")),
    Mistake("processes on one line", "DPONE_AUTHORING_MIGRATION_RECIPE_UNSUPPORTED", 1,
            ("authoring", "migrate", "p", "--to", "folder"),
            writes("p/pipeline.yaml", f"kind: dpone.flow.v1\nprocesses: [{ROUTE.strip()}]\n")),
    Mistake("flow in a folder of others", "DPONE_AUTHORING_MIGRATION_TARGET_INVALID", 4,
            (*MIGRATE, "--to", "classic"), writes(MANIFEST, f"{TWO}  - {ROUTE}")),
    Mistake("no process", "DPONE_AUTHORING_MIGRATION_SOURCE_INVALID", 1,
            ("authoring", "migrate", "p", "--to", "folder"),
            writes("p/pipeline.yaml", "kind: dpone.flow.v1\nprocesses: []\n")),
    Mistake("recover climbs out", "DPONE_AUTHORING_PATH_INVALID", 4, (*RECOVER, "../x")),
    Mistake("recover nothing", "DPONE_USAGE", 2, RECOVER),
    Mistake("recover elsewhere", "DPONE_AUTHORING_PATH_INVALID", 4, (*RECOVER, "/etc/passwd")),
)  # fmt: skip
