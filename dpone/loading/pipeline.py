"""Finds the route manifest in a flow or folder: `pipeline.yaml` and the fragments that it names.

Promise: a pipeline with one process is that process; one with several wants its route's name.
Fragments are siblings by plain leaf names. Source: the authoring design, the three forms.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from dpone.contracts.errors_loading import ManifestInvalid

PIPELINE_KIND = "dpone.flow.v1"
FRAGMENT_KIND = "dpone.flow-fragment.v1"
_LEAF = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,199}\.ya?ml")


class Found(NamedTuple):
    """A route's value, the line of each of its places, and the file that holds it."""

    value: Any
    lines: Mapping[str, int]
    name: str


def is_pipeline(value: Any) -> bool:
    """Whether a document is a pipeline and no route manifest itself."""
    return isinstance(value, dict) and value.get("kind") == PIPELINE_KIND


def route_in(root: Found, read: Callable[[str], Found], process: str) -> Found:
    """The one route of a pipeline, or the one whose route is `process`.

    `read` reads a sibling by its leaf name. Raises `ManifestInvalid`.
    """
    found = _processes(root) if "fragments" not in root.value else []
    for place, name in _fragments(root):
        if not _LEAF.fullmatch(name):
            raise _invalid(root, place, "a fragment is a YAML file in the same folder")
        found += _processes(read(name))
    if process:
        found = [item for item in found if _route(item) == process]
    if len(found) != 1:
        known = "none has that route" if process else "name one with --process"
        raise _invalid(root, "$", f"{len(found)} processes fit; {known}")
    return found[0]


def _fragments(root: Found) -> list[tuple[str, str]]:
    names = root.value.get("fragments", [])
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise _invalid(root, "$.fragments", "fragments is no list of file names")
    return [(f"$.fragments[{number}]", name) for number, name in enumerate(names)]


def _processes(holder: Found) -> list[Found]:
    items = holder.value.get("processes") if isinstance(holder.value, dict) else None
    if not isinstance(items, list):
        raise _invalid(holder, "$.processes", "it has no list of processes")
    found: list[Found] = []
    for number, item in enumerate(items):
        prefix = f"$.processes[{number}]"
        lines = {
            "$" + place.removeprefix(prefix): line
            for place, line in holder.lines.items()
            if place.startswith(prefix)
        }
        found.append(Found(item, lines, holder.name))
    return found


def _route(item: Found) -> str:
    return str(item.value.get("route", "")) if isinstance(item.value, dict) else ""


def _invalid(holder: Found, place: str, reason: str) -> ManifestInvalid:
    return ManifestInvalid(
        name=holder.name, line=holder.lines.get(place, 1), place=f"at {place}", reason=reason
    )
