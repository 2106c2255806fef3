"""The three authoring forms of a workload, as texts that move line by line.

classic: one file that is a route manifest. flow: `pipeline.yaml` with metadata and the manifests
under `processes`. folder: `pipeline.yaml` whose `fragments` name sibling files that hold them.

Promise: lines are moved and indented, never written anew, so quotes and scalars stay, and comments
come along; what a form cannot hold is refused. The caller compares the compiled meaning. Source:
the authoring design, commands.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from dpone.authoring.cutting import (
    INDENT,
    Cut,
    Unfit,
    as_document,
    as_item,
    body,
    comments_of,
    cut,
    indented,
    lines_of,
    newline_of,
    notes_of,
    stacked,
)
from dpone.contracts import catalog as layout
from dpone.contracts.errors_project import MigrationSourceInvalid, MigrationUnsupported
from dpone.contracts.plainyaml import EMPTY, Entries, Items, Plain, Scalar, Value, View, place_of
from dpone.ports.documents import Documents

FORMS = ("classic", "flow", "folder")
FLOW_KIND = "dpone.flow.v1"
FRAGMENT_KIND = "dpone.flow-fragment.v1"
FRAGMENT = "processes.yaml"
# The key of a root that lists what the form holds.
_LISTED = {"flow": "processes", "folder": "fragments"}
_LEAF = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,199}\.ya?ml")


@dataclass(frozen=True, slots=True)
class Source:
    """A workload's text: its form, its root's text, and the texts of its fragments by leaf name.

    `read`: the files that it was read from, with their bytes; empty for one that was made.
    """

    path: str
    form: str
    root: str
    fragments: dict[str, str]
    read: dict[str, bytes] = field(default_factory=dict)


def form_of(view: View) -> str:
    """The form of a root: classic unless its kind is a flow, folder when it names fragments."""
    root = view.value
    if not isinstance(root, Entries) or _text(root.get("kind", EMPTY)) != FLOW_KIND:
        return "classic"
    return "folder" if "fragments" in root else "flow"


def fragments_of(view: View, path: str) -> list[str]:
    """The leaf names of a folder's fragments. Raises `MigrationSourceInvalid`."""
    root = view.value
    found = root.get("fragments", EMPTY) if isinstance(root, Entries) else EMPTY
    names = [_text(item) for item in found] if isinstance(found, Items) else []
    for name in names or [""]:
        if not _LEAF.fullmatch(name):
            raise MigrationSourceInvalid(path=path, reason="fragments names no sibling YAML file")
    if len(set(names)) != len(names):
        raise MigrationSourceInvalid(path=path, reason="fragments names a file twice")
    return names


def compiled(documents: Documents, source: Source) -> list[Value]:
    """What the form stands for: its route manifests, in order, with every scalar's text."""
    view = documents.view(source.root.encode(), source.path.rpartition("/")[2])
    if source.form == "classic":
        return [view.value]
    if source.form == "flow":
        return _processes(view, source.path)
    found: list[Value] = []
    for name, text in source.fragments.items():
        found += _processes(documents.view(text.encode(), name), name)
    return found


def _processes(view: View, path: str) -> list[Value]:
    root = view.value
    found = root.get("processes", EMPTY) if isinstance(root, Entries) else EMPTY
    if not isinstance(found, Items) or not found:
        raise MigrationSourceInvalid(path=path, reason="it has no list of processes")
    return list(found)


def block(documents: Documents, source: Source) -> list[str]:
    """The text of the processes, as list items that begin in the first column."""
    if source.form == "classic":
        return as_item(body(source.root))
    if source.form == "flow":
        return _items(_cut(documents, source.root, "processes", source.path))
    newline = newline_of(lines_of(source.root))
    count = len(source.fragments)
    named = _cut(documents, source.root, "fragments", source.path)
    notes = notes_of(named, count, newline)
    lines: list[str] = []
    for name, above in zip(source.fragments, notes, strict=False):
        part = _fragment(documents, source.fragments[name], name, newline)
        lines = stacked(lines, above, part)
    return stacked(lines, notes[count])


def _fragment(documents: Documents, text: str, name: str, newline: str) -> list[str]:
    """The items of a fragment, with the comments around them."""
    root = documents.view(text.encode(), name).value
    extra = set(root) - {"kind", "processes"} if isinstance(root, Entries) else set()
    if extra:
        raise Unfit(f"it would lose {min(extra)} of {name}")
    part = _cut(documents, text, "processes", name)
    above = comments_of([*part.before, part.beside], newline)
    return stacked(above, _items(part), comments_of(part.after, newline))


def _items(part: Cut) -> list[str]:
    if part.beside and not part.beside.startswith("#"):
        raise Unfit("its processes do not stand on lines of their own")
    return part.items


def _cut(documents: Documents, text: str, key: str, path: str) -> Cut:
    return cut(documents.view(text.encode(), path.rpartition("/")[2]), text, key)


def emit(documents: Documents, source: Source, form: str, fields: dict[str, str]) -> Source:
    """The same workload in another form; `fields` are the metadata of a new root.

    Raises `MigrationUnsupported` for what the form cannot hold.
    """
    try:
        return _emitted(documents, source, form, fields)
    except Unfit as unfit:
        raise MigrationUnsupported(path=source.path, form=form, reason=str(unfit)) from None


def _emitted(documents: Documents, source: Source, form: str, fields: dict[str, str]) -> Source:
    items = block(documents, source)
    newline = newline_of(items)
    if form == "classic":
        _check_metadata(documents, source, fields)
        text = "".join(as_document(_commented(documents, source, items, newline)))
        return Source(fields["path"], form, text, {})
    if form == "folder":
        content = [f"{INDENT}- {FRAGMENT}{newline}"]
        key = "fragments"
    else:
        content, key = indented(items), "processes"
    if source.form == "classic":
        text = _header(form, fields, newline) + "".join([f"{key}:{newline}", *content])
    else:
        part = _cut(documents, source.root, _LISTED[source.form], source.path)
        beside = "".join(f"{INDENT}{note}" for note in comments_of([part.beside], newline))
        text = "".join(stacked(part.before, [f"{key}:{beside or newline}"], content, part.after))
        text = _with_mode(documents, text, source.form, form, source.path)
    fragments: dict[str, str] = {}
    if form == "folder":
        head = f"kind: {FRAGMENT_KIND}{newline}processes:{newline}"
        fragments[FRAGMENT] = head + "".join(indented(items))
    return Source(fields["path"], form, text, fragments)


def _commented(documents: Documents, source: Source, items: list[str], newline: str) -> list[str]:
    """The items between the comments of a root that does not come along."""
    part = _cut(documents, source.root, _LISTED[source.form], source.path)
    above = comments_of([*part.before, part.beside], newline)
    return stacked(above, items, comments_of(part.after, newline))


def emit_new(
    documents: Documents, domain: str, workload: str, form: str, value: dict[str, Plain]
) -> dict[str, bytes]:
    """A new workload's files by path, in a form."""
    path = layout.manifest_path(domain, workload, "classic")
    classic = Source(path, "classic", documents.render(value).decode(), {})
    if form == "classic":
        return {path: classic.root.encode()}
    root = layout.manifest_path(domain, workload, form)
    fields = {"path": root, "id": f"{domain}.{workload}", "domain": domain}
    made = emit(documents, classic, form, fields)
    folder = root.rpartition("/")[0]
    files = {f"{folder}/{name}": text.encode() for name, text in made.fragments.items()}
    return {**files, root: made.root.encode()}


def _header(form: str, fields: dict[str, str], newline: str) -> str:
    lines = [f"kind: {FLOW_KIND}", "authoring:", f"{INDENT}mode: {form}", "metadata:"]
    lines += [f'{INDENT}{key}: "{fields[key]}"' for key in ("id", "domain") if fields.get(key)]
    return newline.join([*lines, ""])


def _with_mode(documents: Documents, text: str, old: str, new: str, path: str) -> str:
    """Change the one word that names the form, when the root names it."""
    view = documents.view(text.encode(), path.rpartition("/")[2])
    number = view.lines.get(place_of(("authoring", "mode")))
    if number is None:
        return text
    lines = lines_of(text)
    changed, count = re.subn(rf"(mode:\s*[\"']?){old}\b", rf"\g<1>{new}", lines[number - 1])
    if count != 1:
        raise Unfit(f"its authoring.mode is not plainly {old}")
    lines[number - 1] = changed
    return "".join(lines)


def _check_metadata(documents: Documents, source: Source, fields: dict[str, str]) -> None:
    """A classic manifest holds no metadata; only what can be told from its path may go."""
    view = documents.view(source.root.encode(), source.path.rpartition("/")[2])
    root = view.value
    assert isinstance(root, Entries)
    metadata = root.get("metadata", EMPTY)
    known = {"id": fields.get("id", ""), "domain": fields.get("domain", "")}
    for key, value in metadata.items() if isinstance(metadata, Entries) else ():
        if not isinstance(value, Scalar) or known.get(key) != value.text:
            raise Unfit(f"it would lose metadata.{key}")
    extra = set(root) - {"kind", "authoring", "metadata", "processes", "fragments"}
    if extra:
        raise Unfit(f"it would lose {min(extra)}")


def _text(value: Value) -> str:
    return value.text if isinstance(value, Scalar) and value.kind == "str" else ""
