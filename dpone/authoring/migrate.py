"""The plan of `dpone authoring migrate`: one workload from one authoring form into another.

Promise: the compiled meaning is the same before and after, scalar by scalar; old files stay and are
named. Linearization point: the catalog's entry where it changes, else the new root.
Source: the authoring design, commands; ADR 0023, commands and calls.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from posixpath import normpath

from dpone.authoring.draft import Draft
from dpone.authoring.forms import FORMS, Source, compiled, emit, form_of, fragments_of
from dpone.authoring.reading import Tree, parent_of
from dpone.contracts.canonical import digest
from dpone.contracts.catalog import catalog_path
from dpone.contracts.errors import ContractInvalid
from dpone.contracts.errors_project import (
    MigrationDrift,
    MigrationModeMismatch,
    MigrationSourceInvalid,
    MigrationTargetInvalid,
    MigrationUnsupported,
    OptionInvalid,
    ScaffoldConflict,
)
from dpone.contracts.errors_yaml import YamlError
from dpone.contracts.plainyaml import Entries, Items, Scalar, Value, View, place_of
from dpone.contracts.route import route_of
from dpone.ports.documents import Documents

# A line with its end, as YAML counts lines.
_LINE = re.compile(rb"[^\r\n]*(?:\r\n|\n|\r)|[^\r\n]+\Z")
# The names of the roots that have a folder of their own.
_ROOTS = ("pipeline.yaml", "pipeline.yml")
# What may be left out of a workload's path.
ENDINGS = ("/pipeline.yaml", ".yaml", ".yml")
OLD_RETAINED = "DPONE_AUTHORING_MIGRATION_OLD_FRAGMENTS_RETAINED"


@dataclass(frozen=True, slots=True)
class Migration:
    """A planned migration: source and target forms, the meaning, the files that stay."""

    draft: Draft
    source: Source
    target: Source
    fingerprint: str
    retained: tuple[str, ...]


def plan_migration(
    tree: Tree, documents: Documents, path: str, to: str, declared: str = ""
) -> Migration:
    """Plan a migration. Raises a `ProjectConflict` or an `AuthoringError`."""
    for option, form in (("--to", to), ("--from", declared or to)):
        if form not in FORMS:
            raise OptionInvalid(option=option, reason=f"it is none of {', '.join(FORMS)}")
    source = read_source(tree, documents, path)
    if declared and source.form != declared:
        raise MigrationModeMismatch(path=source.path, found=source.form, wanted=declared)
    meaning = _routes(compiled(documents, source), source.path)
    target = source
    if source.form != to:
        try:
            target = emit(documents, source, to, _fields(source, to, meaning))
            _compare(documents, meaning, source, target)
        except YamlError as error:
            # The source was read before; what cannot be read is what its lines would become.
            reason = "its lines would be read differently there"
            raise MigrationUnsupported(path=source.path, form=to, reason=reason) from error
    draft = Draft(tree, target.path)
    # The plan was made of these bytes; a save since then is a conflict.
    draft.seen |= source.read
    folder = parent_of(target.path)
    for name, text in target.fragments.items() if target is not source else ():
        draft.create(f"{folder}/{name}" if folder else name, text.encode())
    _root(draft, source, target)
    _repoint(draft, documents, source, target)
    for name, data in source.read.items() if target is not source else ():
        if name not in draft.changes:
            # Looked at once more before the root changes: the new files say what it said.
            draft.edit(name, data)
    retained = _retained(source, target)
    if retained:
        draft.warnings.append(f"{OLD_RETAINED}: {', '.join(retained)}")
    return Migration(draft, source, target, digest(meaning), retained)


def read_source(tree: Tree, documents: Documents, path: str) -> Source:
    """Read a workload from its root's path, or from the path without its ending."""
    root, data = _root_of(tree, documents, path.rstrip("/"))
    view = documents.view(data, root.rpartition("/")[2])
    form = form_of(view)
    fragments: dict[str, str] = {}
    read = {root: data}
    folder = parent_of(root)
    for name in fragments_of(view, root) if form == "folder" else ():
        place = f"{folder}/{name}" if folder else name
        found = tree.read(place)
        if found is None:
            raise MigrationSourceInvalid(path=root, reason=f"its fragment {name} is missing")
        # Read as YAML first: what is no text is refused there.
        documents.view(found, name)
        fragments[name] = found.decode("utf-8-sig")
        read[place] = found
    return Source(root, form, data.decode("utf-8"), fragments, read)


def _root_of(tree: Tree, documents: Documents, path: str) -> tuple[str, bytes]:
    tried = [path]
    if not path.endswith((".yaml", ".yml")):
        # Of two forms that lie there, one is old or unfinished; the catalog names the other.
        named = _named(tree, documents, path)
        tried = sorted((path + end for end in ENDINGS), key=lambda root: root != named)
    for root in tried:
        data = tree.read(root)
        if data is not None:
            return root, data
    raise MigrationTargetInvalid(path=path, reason="there is no such file")


def _named(tree: Tree, documents: Documents, path: str) -> str:
    """The root that the catalog names for a workload; empty when it names none."""
    parts = path.split("/")
    if len(parts) != 3 or parts[0] != "workloads":
        return ""
    catalog = catalog_path(parts[1])
    data = tree.read(catalog)
    return "" if data is None else _manifest_in(_view(documents, data, catalog).value, parts[2])


def _view(documents: Documents, data: bytes, path: str) -> View:
    return documents.view(data, path.rpartition("/")[2])


def _manifest_in(catalog: Value, workload: str) -> str:
    value: Value | None = catalog
    for key in ("workloads", workload, "manifest"):
        value = value.get(key) if isinstance(value, Entries) else None
    return value.text if isinstance(value, Scalar) else ""


def _fields(source: Source, to: str, meaning: list[object]) -> dict[str, str]:
    first = meaning[0]
    route = first.get("route", ["", ""])[0] if isinstance(first, dict) else ""
    parts = source.path.split("/")
    domain = parts[1] if len(parts) > 2 and parts[0] == "workloads" else ""
    return {"path": _target_path(source, to), "id": str(route), "domain": domain}


def _target_path(source: Source, to: str) -> str:
    """Classic is `<name>.yaml`, the others `<name>/pipeline.yaml`."""
    if to == "classic":
        folder = parent_of(source.path)
        if not folder:
            raise MigrationTargetInvalid(path=source.path, reason="its folder has no name")
        if source.path.rpartition("/")[2] not in _ROOTS:
            # Its folder is not its own, and may hold other workloads.
            raise MigrationTargetInvalid(path=source.path, reason="it is no pipeline.yaml")
        return f"{folder}.yaml"
    if source.form == "classic":
        return source.path.rpartition(".")[0] + "/pipeline.yaml"
    return source.path


def _routes(values: list[Value], path: str) -> list[object]:
    """Every manifest as plain texts with kinds; each must decode as a route."""
    meaning: list[object] = []
    for value in values:
        try:
            route_of(_plain(value))
        except ContractInvalid as error:
            raise MigrationSourceInvalid(path=path, reason=error.fields["reason"]) from None
        meaning.append(_meaning(value))
    return meaning


def _compare(documents: Documents, meaning: list[object], source: Source, target: Source) -> None:
    found = [_meaning(value) for value in compiled(documents, target)]
    if found != meaning:
        if not all(data.endswith((b"\n", b"\r")) for data in source.read.values()):
            # A text of several lines that ends there would get the ending as its own.
            reason = "a file of it ends without a line ending, and would get one"
            raise MigrationUnsupported(path=source.path, form=target.form, reason=reason)
        raise MigrationDrift(
            path=target.path, form=target.form, reason="its processes read differently"
        )


def _root(draft: Draft, source: Source, target: Source) -> None:
    data = target.root.encode()
    if target.path == source.path:
        draft.edit(target.path, data)
        return
    found = draft.read(target.path)
    if found is not None and found != data:
        draft.refuse(target.path, ScaffoldConflict(path=target.path))
    draft.create(target.path, data)


def _repoint(draft: Draft, documents: Documents, source: Source, target: Source) -> None:
    """Have the catalog name the new root; its one line changes, and it puts all in force."""
    parts = source.path.split("/")
    if len(parts) < 3 or parts[0] != "workloads":
        return
    path = catalog_path(parts[1])
    data = draft.read(path)
    if data is None:
        return
    # The catalog's word counts, and not the usual names: a person may have chosen others.
    if source.path == target.path:
        if source is target and _workloads(documents, data, path, target.path):
            # Nothing is to be changed; an interrupted run may still have left something there.
            draft.edit(path, data)
        return
    changed = data
    for workload in _workloads(documents, data, path, source.path):
        changed = _with_manifest(documents, changed, path, workload, source, target)
    if changed != data or _workloads(documents, data, path, target.path):
        draft.edit(path, changed)
        draft.root = path


def _workloads(documents: Documents, data: bytes, path: str, root: str) -> list[str]:
    """The workloads of the catalog at `path` whose manifest is `root`."""
    value = _view(documents, data, path).value
    listed = value.get("workloads") if isinstance(value, Entries) else None
    if not isinstance(listed, Entries):
        return []
    return [key for key in listed if normpath(_manifest_in(value, key)) == root]


def _with_manifest(
    documents: Documents, data: bytes, path: str, workload: str, source: Source, target: Source
) -> bytes:
    """The catalog with another manifest in one workload's line. Raises `MigrationUnsupported`."""
    entry = ("workloads", workload, "manifest")
    view = _view(documents, data, path)
    number = view.lines.get(place_of(entry), 1)
    wanted = _replaced(_meaning(view.value), entry, target.path)
    said = _manifest_in(view.value, workload).encode()
    for changed in _exchanged(data, number, said, target.path.encode()):
        # The line may say the path elsewhere too, in a comment or for another workload.
        if _meaning(_view(documents, changed, path).value) == wanted:
            return changed
    reason = f"line {number} of {path} cannot be made to name it alone"
    raise MigrationUnsupported(path=source.path, form=target.form, reason=reason)


def _exchanged(data: bytes, number: int, old: bytes, new: bytes) -> Iterator[bytes]:
    """The text with one occurrence of `old` in a line exchanged for `new`, each in turn."""
    lines = _LINE.findall(data)
    before, line = b"".join(lines[: number - 1]), lines[number - 1]
    for found in re.finditer(re.escape(old), line):
        made = line[: found.start()] + new + line[found.end() :]
        yield b"".join((before, made, *lines[number:]))


def _replaced(meaning: object, path: tuple[str, ...], text: str) -> object:
    if not path:
        assert isinstance(meaning, list)
        return [text, meaning[1]]
    assert isinstance(meaning, dict)
    return {**meaning, path[0]: _replaced(meaning[path[0]], path[1:], text)}


def _retained(source: Source, target: Source) -> tuple[str, ...]:
    if target is source:
        return ()
    folder = parent_of(source.path)
    names = [f"{folder}/{name}" if folder else name for name in source.fragments]
    written = {f"{parent_of(target.path)}/{name}" for name in target.fragments}
    old = [name for name in names if name not in written]
    return (*([source.path] if target.path != source.path else ()), *old)


def _meaning(value: Value) -> object:
    if isinstance(value, Entries):
        return {key: _meaning(item) for key, item in value.items()}
    if isinstance(value, Items):
        return [[_meaning(item)] for item in value]
    return [value.text, value.kind]


def _plain(value: Value) -> object:
    """Texts, lists and mappings, as a manifest's reader sees them."""
    if isinstance(value, Entries):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, Items):
        return [_plain(item) for item in value]
    return value.text
