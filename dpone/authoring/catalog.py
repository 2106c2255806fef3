"""Domain catalogs: what they declare, and edits that never change what a person wrote.

Promise: an existing declaration that is exactly the generated one is left alone; one that differs
in any field is a conflict; nothing is merged. Source: ADR 0023, commands and calls.
"""

from __future__ import annotations

from collections.abc import Mapping

from dpone.contracts.catalog import CATALOG_SCHEMA, catalog_path
from dpone.contracts.errors_project import CatalogInvalid, DomainConflict, DomainUnknown
from dpone.contracts.plainyaml import EMPTY, Entries, Items, Plain, Scalar, Value, View, place_of
from dpone.ports.documents import Documents


class Catalog:
    """The bytes of one domain's catalog; edits return through `data`."""

    def __init__(self, documents: Documents, domain: str, data: bytes | None) -> None:
        self.documents = documents
        self.domain = domain
        self.path = catalog_path(domain)
        self.name = self.path.rpartition("/")[2]
        if data is None:
            raise DomainUnknown(domain=domain, path=self.path)
        self.data = data
        self._read: tuple[bytes, View] | None = None
        self._check(self.view())

    def view(self) -> View:
        """The catalog as it stands; read anew only after an edit."""
        if self._read is None or self._read[0] is not self.data:
            self._read = (self.data, self.documents.view(self.data, self.name))
        return self._read[1]

    def _check(self, view: View) -> None:
        root = view.value
        if not isinstance(root, Entries):
            raise CatalogInvalid(path=self.path, reason="it is no mapping", line=1)
        found = (_text(root.get("schema", EMPTY)), _text(root.get("domain", EMPTY)))
        if found[0] not in ("", CATALOG_SCHEMA):
            self._invalid(view, ("schema",), f"its schema is not {CATALOG_SCHEMA}")
        if found[1] != self.domain:
            self._invalid(view, ("domain",), f"its domain is not {self.domain}")
        for part in ("workloads", "dags"):
            value = root.get(part, EMPTY)
            if not isinstance(value, Entries) and not _is_null(value):
                self._invalid(view, (part,), f"{part} is no mapping")

    def _invalid(self, view: View, path: tuple[str, ...], reason: str) -> None:
        line = view.lines.get(place_of(path), 1)
        raise CatalogInvalid(path=self.path, reason=reason, line=line)

    def entry(self, part: str, key: str) -> Value | None:
        """A declaration below `workloads` or `dags`."""
        root = self.view().value
        found = root.get(part, EMPTY) if isinstance(root, Entries) else EMPTY
        return found.get(key) if isinstance(found, Entries) else None

    def declare(self, part: str, key: str, wanted: Mapping[str, Plain]) -> bool:
        """Add a declaration; False when exactly this one is there.

        Raises `DomainConflict` naming the fields that differ.
        """
        existing = self.entry(part, key)
        if existing is None:
            self.data = self.documents.add_entry(self.data, (part,), key, wanted, name=self.name)
            return True
        fields = self.differing(existing, wanted)
        if fields:
            line = self.view().lines.get(place_of((part, key)), 1)
            raise DomainConflict(
                path=self.path, entry=f"{part}.{key}", fields=", ".join(fields), line=line
            )
        return False

    def differing(self, existing: Value, wanted: Mapping[str, Plain]) -> list[str]:
        """The fields in which a declaration is not exactly the wanted one."""
        if not isinstance(existing, Entries):
            return ["its form"]
        if self.documents.same(existing, wanted):
            return []
        fields = [
            key
            for key in (*wanted, *(key for key in existing if key not in wanted))
            if key not in existing
            or key not in wanted
            or not self.documents.same(existing[key], wanted[key])
        ]
        return fields or ["its form"]

    def members(self, dag_id: str) -> list[str] | None:
        """The workloads of a DAG; None when there is no such DAG."""
        dag = self.entry("dags", dag_id)
        if dag is None:
            return None
        found = dag.get("workloads", EMPTY) if isinstance(dag, Entries) else EMPTY
        if _is_null(found):
            return []
        if not isinstance(found, Items):
            self._invalid(self.view(), ("dags", dag_id, "workloads"), "workloads is no list")
            return []
        return [_text(item) for item in found]

    def add_member(self, dag_id: str, workload: str) -> None:
        """Put a workload into a DAG, at the end of its list."""
        self.data = self.documents.append_item(
            self.data, ("dags", dag_id, "workloads"), workload, name=self.name
        )

    def add_field(self, part: str, key: str, field: str, value: Plain) -> None:
        """Add one field to a declaration that lacks it."""
        self.data = self.documents.add_entry(self.data, (part, key), field, value, name=self.name)


def _text(value: Value) -> str:
    return value.text if isinstance(value, Scalar) and value.kind == "str" else ""


def _is_null(value: Value) -> bool:
    return isinstance(value, Scalar) and value.kind == "null"
