"""The three authoring forms of a workload, as texts that move line by line.

classic: one file that is a route manifest. flow: `pipeline.yaml` with metadata and the manifests
under `processes`. folder: `pipeline.yaml` whose `fragments` name sibling files that hold them.

Promise: lines are moved and indented, never written anew, so comments, quotes and scalars stay;
what a form cannot hold is refused. The caller compares the compiled meaning. Source: the authoring
design, commands.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from dpone.contracts import catalog as layout
from dpone.contracts.errors_project import MigrationSourceInvalid, MigrationUnsupported
from dpone.contracts.plainyaml import EMPTY, Entries, Items, Plain, Scalar, Value, View, place_of
from dpone.ports.documents import Documents

FORMS = ("classic", "flow", "folder")
FLOW_KIND = "dpone.flow.v1"
FRAGMENT_KIND = "dpone.flow-fragment.v1"
FRAGMENT = "processes.yaml"
_INDENT = "  "
_MARKER = re.compile(r"(?:---|\.\.\.)(?:\s|\Z)")
_LEAF = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,199}\.ya?ml")


@dataclass(frozen=True, slots=True)
class Source:
    """A workload's text: its form, its root's bytes, and its fragments by leaf name.

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
        return _as_item(_body(source.root, source.path))
    if source.form == "flow":
        return _cut(documents, source.root, "processes", source.path)[1]
    lines: list[str] = []
    for name, text in source.fragments.items():
        lines += _cut(documents, text, "processes", name)[1]
    return lines


def emit(documents: Documents, source: Source, form: str, fields: dict[str, str]) -> Source:
    """The same workload in another form; `fields` are the metadata of a new root."""
    items = block(documents, source)
    if form == "classic":
        _check_metadata(documents, source, fields)
        return Source(fields["path"], form, "".join(_as_document(items, source.path)), {})
    newline = "\r\n" if any(line.endswith("\r\n") for line in items) else "\n"
    if form == "folder":
        content = [f"{_INDENT}- {FRAGMENT}{newline}"]
        key = "fragments"
    else:
        content, key = _indented(items), "processes"
    root = [f"{key}:{newline}", *content]
    if source.form == "classic":
        text = _header(form, fields, newline) + "".join(root)
    else:
        old = "processes" if source.form == "flow" else "fragments"
        before, _, after = _cut(documents, source.root, old, source.path)
        text = "".join([*before, *root, *after])
        text = _with_mode(documents, text, source.form, form, source.path)
    fragments: dict[str, str] = {}
    if form == "folder":
        head = f"kind: {FRAGMENT_KIND}{newline}processes:{newline}"
        fragments[FRAGMENT] = head + "".join(_indented(items))
    return Source(fields["path"], form, text, fragments)


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
    lines = [f"kind: {FLOW_KIND}", "authoring:", f"{_INDENT}mode: {form}", "metadata:"]
    lines += [f'{_INDENT}{key}: "{fields[key]}"' for key in ("id", "domain") if fields.get(key)]
    return newline.join([*lines, ""])


def _with_mode(documents: Documents, text: str, old: str, new: str, path: str) -> str:
    """Change the one word that names the form, when the root names it."""
    view = documents.view(text.encode(), path.rpartition("/")[2])
    number = view.lines.get(place_of(("authoring", "mode")))
    if number is None:
        return text
    lines = text.splitlines(keepends=True)
    changed, count = re.subn(rf"(mode:\s*[\"']?){old}\b", rf"\g<1>{new}", lines[number - 1])
    if count != 1:
        raise MigrationUnsupported(path=path, form=new, reason="its authoring.mode is not plain")
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
            raise MigrationUnsupported(
                path=source.path, form="classic", reason=f"it would lose metadata.{key}"
            )
    extra = set(root) - {"kind", "authoring", "metadata", "processes", "fragments"}
    if extra:
        raise MigrationUnsupported(
            path=source.path, form="classic", reason=f"it would lose {sorted(extra)[0]}"
        )


def _cut(
    documents: Documents, text: str, key: str, path: str
) -> tuple[list[str], list[str], list[str]]:
    """The lines before a top-level list, its items from the first column, the lines after it."""
    view = documents.view(text.encode(), path.rpartition("/")[2])
    root = view.value
    start = view.lines.get(place_of((key,)))
    if not isinstance(root, Entries) or start is None:
        raise MigrationSourceInvalid(path=path, reason=f"it has no {key}")
    lines = text.splitlines(keepends=True)
    own = _key_line(lines, key, path)
    later = [_key_line(lines, name, path) for name in root if name != key]
    end = min((number for number in later if number > own), default=len(lines))
    items = lines[own + 1 : end]
    if items and not items[-1].endswith("\n"):
        items[-1] += "\n"
    dash = next((line for line in items if line.lstrip().startswith("-")), "")
    return lines[:own], _shifted(items, _indent_of(dash), path), lines[end:]


def _key_line(lines: list[str], key: str, path: str) -> int:
    pattern = re.compile(rf"[\"']?{re.escape(key)}[\"']?\s*:")
    found = [number for number, line in enumerate(lines) if pattern.match(line)]
    if len(found) != 1:
        raise MigrationUnsupported(
            path=path, form="other", reason=f"its {key} is not one plain line"
        )
    return found[0]


def _body(text: str, path: str) -> list[str]:
    """The lines of a manifest without byte order mark and document markers."""
    lines = text.removeprefix("\ufeff").splitlines(keepends=True)
    for number, line in enumerate(lines):
        if line.startswith("%"):
            raise MigrationUnsupported(path=path, form="flow", reason="it has a YAML directive")
        if _MARKER.match(line):
            lines[number] = _beside_marker(line, path)
            break
        if line.strip() and not line.startswith("#"):
            break
    for number, line in enumerate(lines):
        if _MARKER.match(line):
            # One more, at the very end of the document: what follows it are comments.
            lines[number] = _beside_marker(line, path)
    lines = [line for line in lines if line]
    if lines and not lines[-1].endswith("\n"):
        lines[-1] += "\n"
    return lines


def _beside_marker(line: str, path: str) -> str:
    """What a document marker's line holds besides: nothing, or a comment."""
    rest = line[3:].lstrip(" \t")
    if not rest.strip():
        return ""
    if not rest.startswith("#"):
        reason = "something stands beside its document marker"
        raise MigrationUnsupported(path=path, form="flow", reason=reason)
    return rest


def _as_item(lines: list[str]) -> list[str]:
    """A document's lines as one list item that begins in the first column."""
    made: list[str] = []
    is_begun = False
    for line in lines:
        is_content = bool(line.strip()) and not line.lstrip().startswith("#")
        if is_content and not is_begun:
            made.append(f"- {line}")
            is_begun = True
        else:
            made.append(f"{_INDENT}{line}" if line.strip("\r\n") else line)
    return made


def _as_document(items: list[str], path: str) -> list[str]:
    """The lines of a list's only item, from the first column."""
    dashes = [number for number, line in enumerate(items) if line.startswith("-")]
    if len(dashes) != 1:
        raise MigrationUnsupported(
            path=path, form="classic", reason=f"it has {len(dashes)} processes, not one"
        )
    lines = list(items)
    lines[dashes[0]] = " " + lines[dashes[0]][1:]
    first = next((line for line in lines[dashes[0] :] if line.strip()), "")
    return _shifted(lines, _indent_of(first), path)


def _shifted(lines: list[str], count: int, path: str) -> list[str]:
    """Take `count` columns away; a comment further left goes to the first column."""
    made: list[str] = []
    for line in lines:
        if _indent_of(line) >= count or not line.strip():
            made.append(line[count:] if line.strip() or len(line) > count else line.lstrip(" "))
        elif line.lstrip().startswith("#"):
            made.append(line.lstrip(" "))
        else:
            raise MigrationUnsupported(path=path, form="other", reason="its lines are not aligned")
    return made


def _indented(lines: list[str]) -> list[str]:
    return [f"{_INDENT}{line}" if line.strip("\r\n") else line for line in lines]


def _indent_of(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


def _text(value: Value) -> str:
    return value.text if isinstance(value, Scalar) and value.kind == "str" else ""
