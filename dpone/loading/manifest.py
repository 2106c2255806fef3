"""Turns what a manifest's file says into a route, with errors that name the line."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from typing import Any

from dpone.contracts.columns import neutral, table_parts
from dpone.contracts.errors import ContractInvalid
from dpone.contracts.errors_loading import ManifestInvalid, ManifestVersion
from dpone.contracts.route import FIELDS_AT, ROUTE_SCHEMA, RouteManifest, route_of

_PLACE = re.compile(r"\A(.*?) - at `(?:key in )?(\$[^`]*)`\Z", re.DOTALL)


def manifest_of(value: Any, lines: Mapping[str, int], name: str) -> RouteManifest:
    """Decode a manifest. Raises a `ManifestError` naming the file, the line and the place."""
    found = value.get("schema") if isinstance(value, dict) else None
    if isinstance(found, str) and found != ROUTE_SCHEMA:
        raise ManifestVersion(name=name, found=found, ours=ROUTE_SCHEMA)
    try:
        manifest = route_of(value)
    except ContractInvalid as error:
        raise _positioned(str(error.fields["reason"]), value, lines, name) from None
    for column, word in manifest.types.items():
        neutral(word, column)
    table_parts(manifest.target.table)
    return manifest


def _positioned(reason: str, value: Any, lines: Mapping[str, int], name: str) -> ManifestInvalid:
    match = _PLACE.match(reason)
    words, place = (match[1], match[2]) if match else (reason, "$")
    known = place
    while known not in lines and known != "$":
        known = known.rpartition(".")[0] or "$"
    typo = _typo(value, place)
    if typo:
        known = f"{place}.{typo[0]}" if f"{place}.{typo[0]}" in lines else known
        words += f"; {typo[0]} is no field, perhaps {typo[1]} is meant"
    return ManifestInvalid(
        name=name,
        line=lines.get(known, 1),
        place=f"at {place}" if place != "$" else "at its top level",
        reason=words,
    )


def _typo(value: Any, place: str) -> tuple[str, str] | None:
    """The first unknown field of the mapping at `place`, with the known one that is nearest."""
    for part in place.split(".")[1:]:
        value = value.get(part) if isinstance(value, dict) else None
    fields = FIELDS_AT.get(place, ())
    for given in value if isinstance(value, dict) else ():
        free = [field for field in fields if field not in value]
        near = [] if given in fields else difflib.get_close_matches(given, free, 1)
        if near:
            return given, near[0]
    return None
