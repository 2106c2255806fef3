"""The plan of `dpone init workload`: a route manifest that runs, and its place in the catalog.

Promise: the manifest is decoded as `dpone run` decodes it before anything is planned; the catalog's
other lines stay as they are. Source: ADR 0023, commands and calls; the authoring design, commands.
"""

from __future__ import annotations

from functools import partial

from dpone.authoring.draft import Draft
from dpone.authoring.forms import FORMS, emit_new
from dpone.authoring.scaffold import Scaffold, check_new_dag
from dpone.contracts import catalog as layout
from dpone.contracts.catalog import WorkloadOptions
from dpone.contracts.errors import ContractInvalid
from dpone.contracts.errors_project import ManifestRefused, OptionInvalid
from dpone.contracts.plainyaml import Entries, Plain, Value
from dpone.contracts.route import ROUTE_SCHEMA, route_of

SOURCES = ("csv", "parquet", "jsonl", "query")
TARGETS = ("duckdb", "sqlite", "postgres", "csvdir")
_DEFAULT_PLACE = {
    "duckdb": "warehouse.duckdb",
    "sqlite": "warehouse.sqlite",
    "postgres": "warehouse",
    "csvdir": "warehouse",
}


def plan_workload(
    scaffold: Scaffold,
    domain: str,
    workload: str,
    options: WorkloadOptions,
    dag: layout.Dag | None,
) -> Draft:
    """Plan a workload in a domain; the domain and the DAG are planned too where they are new."""
    layout.check_name("domain", domain)
    layout.check_name("workload", workload)
    layout.check_owner(options.owner)
    if options.form not in FORMS:
        raise OptionInvalid(option="--layout", reason=f"it is none of {', '.join(FORMS)}")
    value = manifest_of(domain, workload, options)
    draft, catalog = scaffold.catalog(domain)
    entry: dict[str, Plain] = {
        "manifest": layout.manifest_path(domain, workload, options.form),
        "owner": options.owner,
    }
    # The catalog may know the workload in another form or with its owner left out; that is a
    # conflict, and is found before a file is planned.
    catalog.declare("workloads", workload, entry)
    if dag is not None:
        check_new_dag(dag)
        catalog.declare("dags", dag.dag_id, dag.entry())
    for path, data in emit_new(scaffold.documents, domain, workload, options.form, value).items():
        draft.create(path, data, partial(_means, scaffold, path, data))
    draft.edit(catalog.path, catalog.data)
    return draft


def manifest_of(domain: str, workload: str, options: WorkloadOptions) -> dict[str, Plain]:
    """The route manifest as a value. Raises `ManifestRefused`, `OptionInvalid`."""
    kind, _, place = options.target.partition(":")
    if kind not in TARGETS:
        raise OptionInvalid(option="--target", reason=f"{kind} is none of {', '.join(TARGETS)}")
    value: dict[str, Plain] = {
        "schema": ROUTE_SCHEMA,
        "route": f"{domain}.{workload}",
        "source": _source(domain, workload, options),
        "target": {kind: place or _DEFAULT_PLACE[kind], "table": options.table or workload},
        "strategy": _strategy(options),
    }
    if options.partition != "none":
        value["partition"] = options.partition
    try:
        route_of(value)
    except ContractInvalid as error:
        raise ManifestRefused(reason=error.fields["reason"]) from None
    return value


def _source(domain: str, workload: str, options: WorkloadOptions) -> Plain:
    kind, _, place = options.source.partition(":")
    if kind not in SOURCES:
        raise OptionInvalid(option="--source", reason=f"{kind} is none of {', '.join(SOURCES)}")
    if options.sql and kind != "query":
        raise OptionInvalid(option="--sql", reason=f"{kind} has no statement, only query has one")
    if kind == "query":
        sql = options.sql or " ".join(("SELECT * FROM", workload))
        return {"query": {"connection": place or "warehouse", "sql": sql}}
    return {kind: place or f"data/{domain}/{workload}/*.{kind}"}


def _strategy(options: WorkloadOptions) -> Plain:
    if options.strategy in ("append", "full_refresh"):
        if options.keys:
            raise OptionInvalid(option="--key", reason=f"{options.strategy} has no key columns")
        return options.strategy
    if options.strategy not in ("merge", "replace_partition"):
        known = "append, full_refresh, merge, replace_partition"
        raise OptionInvalid(option="--strategy", reason=f"it is none of {known}")
    if not options.keys:
        raise OptionInvalid(option="--key", reason=f"{options.strategy} needs columns")
    return {options.strategy: list(options.keys)}


def _means(scaffold: Scaffold, path: str, wanted: bytes, found: bytes) -> bool:
    """Whether an existing file says exactly what would be generated, in whatever form."""
    said, meant = (
        scaffold.documents.view(data, path.rpartition("/")[2]).value for data in (found, wanted)
    )
    return _texts(said) == _texts(meant)


def _texts(value: Value) -> object:
    if isinstance(value, Entries):
        return {key: _texts(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_texts(item) for item in value]
    return (value.text, value.kind)
