"""The project that authoring writes: paths, names, and the values of its generated files.

Promise: pure values; the same options give the same bytes on every day. Source: the authoring
design, commands; the formats of the deployments in use.
"""

from __future__ import annotations

import re
from datetime import date
from typing import Annotated

import msgspec

from dpone.contracts.errors_project import NameRefused, OptionInvalid
from dpone.contracts.plainyaml import Plain

PROJECT_FILE = "dpone.toml"
IGNORE_FILE = ".gitignore"
WORKLOAD_SET = "dpone_workloads/gitops/gitops.yaml"
CATALOG_SCHEMA = "dpone.domain-catalog.v1"
OWNERSHIP_SCHEMA = "dpone.domain-ownership.v1"
SET_SCHEMA = "dpone.workload-set.v1"
CATALOGS_PATTERN = "domains/*.yaml"

IGNORED = (
    ".dpone/",
    ".dpone-*",
    ".*.dpone-transaction.json*",
    ".*.dpone-publish.json*",
)
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{1,127}")
_DAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,249}")
_OTHER_FORM = "it has another form or length"


def check_name(what: str, name: str) -> None:
    """Refuse what is no name of a domain or workload. Raises `NameRefused`."""
    if not _NAME.fullmatch(name):
        form = "2 to 128 lower-case letters, digits, - and _, first a letter or digit"
        raise NameRefused(what=what, name=name, reason=_OTHER_FORM, form=form)


def check_dag(name: str) -> None:
    """Refuse what Airflow would not take for a DAG's id. Raises `NameRefused`."""
    if not _DAG.fullmatch(name):
        form = "1 to 250 letters, digits, _, . and -, first a letter, digit or _"
        raise NameRefused(what="DAG", name=name, reason=_OTHER_FORM, form=form)


def check_owner(text: str) -> None:
    """Refuse what tells nobody whom to ask. Raises `NameRefused`."""
    if not text.strip() or len(text) > 256 or any(ord(letter) < 32 for letter in text):
        form = "one line of 1 to 256 characters that is not blank"
        raise NameRefused(what="owner", name=text, reason="it is blank, too long or odd", form=form)


def catalog_path(domain: str) -> str:
    """The catalog of a domain."""
    return f"dpone_workloads/gitops/domains/{domain}.yaml"


def ownership_path(domain: str) -> str:
    """The ownership file of a domain."""
    return f"workloads/{domain}/ownership.yaml"


def manifest_path(domain: str, workload: str, form: str = "classic") -> str:
    """The root source of a workload in one of the authoring forms."""
    if form == "classic":
        return f"workloads/{domain}/{workload}.yaml"
    return f"workloads/{domain}/{workload}/pipeline.yaml"


class Owner(msgspec.Struct, frozen=True, kw_only=True):
    """Who answers for a domain; each text has 1 to 256 characters and is not blank."""

    team: str
    contact: str
    approver_team: str

    def __post_init__(self) -> None:
        for text in (self.team, self.contact, self.approver_team):
            check_owner(text)

    def document(self, domain: str) -> Plain:
        """The ownership file's value."""
        return {
            "schema": OWNERSHIP_SCHEMA,
            "domain": domain,
            "owner": {"team": self.team, "contact": self.contact},
            "approvers": {"github_team": self.approver_team},
        }


_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_ZONE = re.compile(r"[A-Za-z][A-Za-z0-9_+-]*(/[A-Za-z0-9_+-]+){0,2}")
_CRON = re.compile(r"[0-9A-Za-z*/,#?LW-]+( +[0-9A-Za-z*/,#?LW-]+){4,5}")
_PRESET = re.compile(r"@(once|continuous|hourly|daily|weekly|monthly|quarterly|yearly)")


def check_times(schedule: str, start_date: str, timezone: str) -> None:
    """Refuse what has not the form that Airflow takes. Raises `OptionInvalid`."""
    if not (_CRON.fullmatch(schedule) or _PRESET.fullmatch(schedule)):
        raise OptionInvalid(option="--schedule", reason="it is no cron line and no @preset")
    if not _is_date(start_date):
        raise OptionInvalid(option="--start-date", reason="it is no date such as 2026-01-31")
    if not _ZONE.fullmatch(timezone):
        raise OptionInvalid(option="--timezone", reason="it is no zone such as Europe/Berlin")


def _is_date(text: str) -> bool:
    if not _DATE.fullmatch(text):
        return False
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return True


class Dag(msgspec.Struct, frozen=True, kw_only=True):
    """A generated DAG declaration: every field of it is compared on a later run."""

    dag_id: str
    workloads: tuple[str, ...] = ()
    description: str = ""
    schedule: str = "0 6 * * *"
    start_date: str = "2026-01-01"
    timezone: str = "UTC"
    owner: str = "data_platform"
    retries: int = 2
    max_active_runs: int = 1

    def entry(self) -> dict[str, Plain]:
        """The catalog's value of this DAG."""
        return {
            "description": self.description or f"Loads of {self.dag_id}",
            "schedule": self.schedule,
            "start_date": self.start_date,
            "timezone": self.timezone,
            "catchup": False,
            "max_active_runs": self.max_active_runs,
            "default_args": {"owner": self.owner, "retries": self.retries},
            "workloads": list(self.workloads),
        }


# -- the files' contracts, as `dpone schema` prints them -------------------------------------------

_Text = Annotated[str, msgspec.Meta(min_length=1, max_length=256, pattern=r"\S")]
_Name = Annotated[str, msgspec.Meta(pattern="^[a-z0-9][a-z0-9_-]{1,127}$")]


class OwnerPart(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Who owns a domain."""

    team: _Text
    contact: _Text


class ApproverPart(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Who approves changes of a domain."""

    github_team: _Text


class DomainOwnership(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The ownership file of a domain."""

    domain: _Name
    owner: OwnerPart
    approvers: ApproverPart
    schema: str = OWNERSHIP_SCHEMA


class DagDefaults(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What each task of a DAG begins with."""

    owner: str
    retries: int


class DagEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A generated DAG declaration; a person may add fields, which then are his."""

    description: str
    schedule: str
    start_date: str
    timezone: str
    catchup: bool
    max_active_runs: int
    default_args: DagDefaults
    workloads: tuple[str, ...]


class WorkloadEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A workload: where its root source lies, and who owns it."""

    manifest: str
    owner: str | None = None


class DomainCatalog(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The catalog of a domain, as it is generated."""

    domain: _Name
    workloads: dict[str, WorkloadEntry]
    dags: dict[str, DagEntry]
    schema: str = CATALOG_SCHEMA


class WorkloadSet(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Which catalogs there are: patterns below the workload set's folder."""

    catalogs: tuple[str, ...]
    schema: str = SET_SCHEMA


def catalog_document(domain: str) -> Plain:
    """A new catalog's value."""
    return {"schema": CATALOG_SCHEMA, "domain": domain, "workloads": {}, "dags": {}}


def set_document() -> Plain:
    """A new workload set's value."""
    return {"schema": SET_SCHEMA, "catalogs": [CATALOGS_PATTERN]}


class WorkloadOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What a person asked for.

    `source` and `target` are `<kind>` or `<kind>:<path, pattern or connection>`; `sql` belongs to
    a query. `strategy` is append, full_refresh, merge or replace_partition, the last two with
    `keys`.
    """

    source: str = "csv"
    target: str = "duckdb"
    table: str = ""
    strategy: str = "full_refresh"
    keys: tuple[str, ...] = ()
    partition: str = "none"
    sql: str = ""
    owner: str = "data_platform"
    form: str = "classic"
