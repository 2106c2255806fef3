"""Turns what a manifest's file says into a route, with errors that name the line."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from dpone.contracts.columns import neutral, table_parts
from dpone.contracts.errors import ContractInvalid
from dpone.contracts.errors_loading import ManifestInvalid, ManifestVersion
from dpone.contracts.route import ROUTE_SCHEMA, RouteManifest, route_of

_PLACE = re.compile(r"\A(.*?) - at `(?:key in )?(\$[^`]*)`\Z", re.DOTALL)


def manifest_of(value: Any, lines: Mapping[str, int], name: str) -> RouteManifest:
    """Decode a manifest. Raises a `ManifestError` naming the file, the line and the place."""
    found = value.get("schema") if isinstance(value, dict) else None
    if isinstance(found, str) and found != ROUTE_SCHEMA:
        raise ManifestVersion(name=name, found=found, ours=ROUTE_SCHEMA)
    try:
        manifest = route_of(value)
    except ContractInvalid as error:
        raise _positioned(str(error.fields["reason"]), lines, name) from None
    for column, word in manifest.types.items():
        neutral(word, column)
    table_parts(manifest.target.table)
    return manifest


def _positioned(reason: str, lines: Mapping[str, int], name: str) -> ManifestInvalid:
    match = _PLACE.match(reason)
    words, place = (match[1], match[2]) if match else (reason, "$")
    known = place
    while known not in lines and known != "$":
        known = known.rpartition(".")[0] or "$"
    return ManifestInvalid(
        name=name,
        line=lines.get(known, 1),
        place=f"at {place}" if place != "$" else "at its top level",
        reason=words,
    )
