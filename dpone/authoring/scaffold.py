"""Plans of `dpone init`: a project, a domain, a workload, a DAG; and of `dpone catalog apply`.

Promise: a plan reads and writes nothing; its second apply finds everything identical. What a person
wrote is compared and never merged. Source: ADR 0023, commands and calls; the authoring design,
commands.
"""

from __future__ import annotations

import tomllib
from collections.abc import Sequence

from dpone.authoring.catalog import Catalog
from dpone.authoring.draft import Draft
from dpone.authoring.reading import Tree
from dpone.contracts import catalog as layout
from dpone.contracts.codec import convert
from dpone.contracts.errors import ContractInvalid
from dpone.contracts.errors_project import (
    CatalogInvalid,
    DomainConflict,
    OwnershipConflict,
    ProjectFileConflict,
    WorkloadUnknown,
)
from dpone.contracts.plainyaml import EMPTY, Entries, Items, Scalar, place_of
from dpone.contracts.project import ProjectSpec
from dpone.ports.documents import Documents

_PROJECT_TEXT = """\
# The project's settings. Connections are named here; secrets stay in the environment:
# DPONE_CONNECTION_<NAME> overrides a connection, and DPONE_ENVIRONMENT the environment.

environment = "dev"

# [connections.warehouse]
# kind = "postgres"
# env = "WAREHOUSE_DSN"
"""

_NO_PROJECT = (
    f"there is no {layout.PROJECT_FILE} here, so a command in a folder below does not find this "
    "project: dpone init makes one"
)


class Scaffold:
    """Makes drafts of project files."""

    def __init__(self, tree: Tree, documents: Documents) -> None:
        self.tree = tree
        self.documents = documents

    # -- dpone init

    def project(self) -> Draft:
        """A project: its settings, its workload set and its ignore file."""
        draft = Draft(self.tree, layout.PROJECT_FILE)
        draft.create(layout.PROJECT_FILE, _PROJECT_TEXT.encode(), _is_project)
        self._workload_set(draft)
        self._ignore(draft)
        return draft

    def _workload_set(self, draft: Draft) -> None:
        path = layout.WORKLOAD_SET
        data = self.documents.render(layout.set_document(), comment="The catalogs of all domains.")
        draft.create(path, data, lambda found: self._is_set(found, path))
        _share(draft, path)

    def _is_set(self, data: bytes, path: str) -> bool:
        view = self.documents.view(data, path.rpartition("/")[2])
        root = view.value
        found = root.get("catalogs", EMPTY) if isinstance(root, Entries) else EMPTY
        listed = (
            [item.text for item in found if isinstance(item, Scalar)]
            if isinstance(found, Items)
            else []
        )
        if layout.CATALOGS_PATTERN not in listed:
            reason = f"catalogs does not list {layout.CATALOGS_PATTERN}"
            line = view.lines.get(place_of(("catalogs",)), 1)
            raise CatalogInvalid(path=path, reason=reason, line=line)
        return True

    def _ignore(self, draft: Draft) -> None:
        text = "".join(f"{line}\n" for line in layout.IGNORED)
        # One that is there stays, yet it is part of the plan: it may be an interrupted run's.
        draft.create(layout.IGNORE_FILE, text.encode(), lambda _: True)
        _share(draft, layout.IGNORE_FILE)
        found = draft.changes[layout.IGNORE_FILE].after
        present = set(found.decode("utf-8", "replace").split())
        missing = [line for line in layout.IGNORED if line not in present]
        if missing:
            draft.warnings.append(f"{layout.IGNORE_FILE} should also list: {' '.join(missing)}")

    # -- dpone init domain

    def domain(self, name: str, owner: layout.Owner) -> Draft:
        """A domain: who owns it, and its empty catalog."""
        layout.check_name("domain", name)
        draft = Draft(self.tree, layout.catalog_path(name))
        self._workload_set(draft)
        path = layout.ownership_path(name)
        wanted = owner.document(name)

        def is_ours(data: bytes) -> bool:
            found = self.documents.view(data, "ownership.yaml").value
            if not self.documents.same(found, wanted):
                raise OwnershipConflict(
                    path=path, fields=", ".join(_differing(self.documents, found, wanted))
                )
            return True

        draft.create(path, self.documents.render(wanted), is_ours)
        data = self.documents.render(
            layout.catalog_document(name), comment=f"The workloads and DAGs of {name}."
        )
        draft.create(draft.root, data, lambda found: self._is_catalog(name, found))
        if not self.tree.is_there(layout.PROJECT_FILE):
            draft.warnings.append(_NO_PROJECT)
        return draft

    def _is_catalog(self, domain: str, data: bytes) -> bool:
        Catalog(self.documents, domain, data)
        return True

    # -- dpone init dag

    def dag(self, domain: str, dag: layout.Dag) -> Draft:
        """A DAG declaration; an existing one must be exactly this one."""
        check_new_dag(dag)
        draft, catalog = self.catalog(domain)
        for workload in dag.workloads:
            self.declared(catalog, workload)
        catalog.declare("dags", dag.dag_id, dag.entry())
        draft.edit(catalog.path, catalog.data)
        return draft

    # -- dpone catalog apply

    def membership(self, domain: str, dag_id: str, workloads: Sequence[str]) -> Draft:
        """Put workloads into a DAG that exists; members stay members."""
        draft, catalog = self.catalog(domain)
        members = catalog.members(dag_id)
        if members is None:
            raise WorkloadUnknown(path=catalog.path, kind="DAG", name=dag_id)
        for workload in workloads:
            self.declared(catalog, workload)
        for workload in workloads:
            if workload not in members:
                catalog.add_member(dag_id, workload)
                members.append(workload)
        draft.edit(catalog.path, catalog.data)
        return draft

    def ownership(self, draft: Draft, domain: str, workload: str, owner: str) -> None:
        """Name the owner of a workload; another owner is a conflict."""
        layout.check_owner(owner)
        catalog = Catalog(self.documents, domain, draft.current(layout.catalog_path(domain)))
        entry = self.declared(catalog, workload)
        existing = entry.get("owner")
        if existing is None:
            catalog.add_field("workloads", workload, "owner", owner)
        elif not self.documents.same(existing, owner):
            line = catalog.view().lines.get(place_of(("workloads", workload, "owner")), 1)
            raise DomainConflict(
                path=catalog.path, entry=f"workloads.{workload}", fields="owner", line=line
            )
        draft.edit(catalog.path, catalog.data)

    # -- shared

    def catalog(self, domain: str) -> tuple[Draft, Catalog]:
        """A draft whose root is the domain's catalog, and the catalog."""
        layout.check_name("domain", domain)
        draft = Draft(self.tree, layout.catalog_path(domain))
        # A workload set that is a link or no file stops everything before the first change.
        draft.tree.read(layout.WORKLOAD_SET)
        return draft, Catalog(self.documents, domain, draft.current(draft.root))

    def declared(self, catalog: Catalog, workload: str) -> Entries:
        """The declaration of a workload. Raises `WorkloadUnknown`."""
        entry = catalog.entry("workloads", workload)
        if not isinstance(entry, Entries):
            raise WorkloadUnknown(path=catalog.path, kind="workload", name=workload)
        return entry


def check_new_dag(dag: layout.Dag) -> None:
    """Refuse what no DAG can have. Raises `NameRefused`, `OptionInvalid`."""
    layout.check_dag(dag.dag_id)
    layout.check_times(dag.schedule, dag.start_date, dag.timezone)
    layout.check_owner(dag.owner)


def _share(draft: Draft, path: str) -> None:
    """Mark a file that stands by itself: every domain relies on it, whoever made it first."""
    draft.changes[path] = draft.changes[path].for_all()


def _is_project(data: bytes) -> bool:
    try:
        convert(tomllib.loads(data.decode("utf-8")), ProjectSpec)
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ProjectFileConflict(reason=str(error)) from None
    except ContractInvalid as error:
        raise ProjectFileConflict(reason=error.fields["reason"]) from None
    return True


def _differing(documents: Documents, found: object, wanted: object) -> list[str]:
    if not isinstance(found, Entries) or not isinstance(wanted, dict):
        return ["its form"]
    keys = [*wanted, *(key for key in found if key not in wanted)]
    return [
        key
        for key in keys
        if key not in found or key not in wanted or not documents.same(found[key], wanted[key])
    ]
