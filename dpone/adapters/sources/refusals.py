"""What DuckDB's words about a source mean; the bytes it quotes are never passed on."""

from __future__ import annotations

import re

from dpone.adapters.sources.csvtext import FIELD_BYTES_MAX
from dpone.contracts.errors import DponeError
from dpone.contracts.errors_loading import (
    SourceEncoding,
    SourceFieldTooLarge,
    SourceFormat,
    SourceRagged,
    SourceUnreadable,
    SourceValue,
)
from dpone.ports.interrupts import stop_if_interrupted

_LINE = re.compile(r"CSV Error on Line: (\d+)")
_COLUMN = re.compile(r'converting column "(.*?)"\.')
_CAST = re.compile(r"Column (.*?) is being converted as type (.+)")
_FILE = re.compile(r"^\s*file = (.+)$", re.MULTILINE)
_JSON = re.compile(r'in file ".*?([^/"]+)", (?:at byte \d+ )?in (?:line|record/value|value) (\d+)')
_ENGINE_TYPE = re.compile(r"""to ['"]?([A-Z][A-Z0-9_(), ]*)|type ([A-Z][A-Z0-9_(), ]*)""")


def refusal_of(error: Exception, kind: str) -> Exception:
    """The typed error for an engine's error, or the error itself when it is not the source's.

    Raises `KeyboardInterrupt` when the engine was interrupted by a person.
    """
    if isinstance(error, DponeError):
        return error
    stop_if_interrupted(error)
    text = str(error)
    if "CSV Error" in text:
        return _csv(text)
    if "CSV Parser" in text:
        reason = "its line endings or quotes are mixed"
        return SourceFormat(place="", kind="CSV", reason=reason)
    lowered = text.lower()
    if kind == "jsonl" and ("json" in lowered or "maximum_object_size" in lowered):
        return _json(text, lowered)
    if kind == "parquet" and ("parquet" in lowered or "snappy" in lowered or "thrift" in lowered):
        return SourceFormat(place="", kind="Parquet", reason="a file is damaged or of another kind")
    if lowered.startswith("conversion error"):
        match = _ENGINE_TYPE.search(text)
        found = (match[1] or match[2]).strip() if match else "the declared type"
        return SourceValue(column="of the source", place="", type=found)
    if lowered.startswith("io error") and "no files found" in lowered:
        return SourceUnreadable(name="of the route", reason="it is gone")
    return error


def _csv(text: str) -> DponeError:
    line = _LINE.search(text)
    file = _FILE.search(text)
    name = file[1].strip().rpartition("/")[2] if file else ""
    place = (f" at line {line[1]}" if line else "") + (f" of {name}" if name else "")
    if "not utf-8" in text or "Invalid unicode" in text:
        return SourceEncoding(
            name=name or "of the route", place=f", line {line[1]}" if line else ""
        )
    if "Maximum line size" in text or "larger than" in text:
        return SourceFieldTooLarge(place=place, bytes_max=FIELD_BYTES_MAX)
    if "Expected Number of Columns" in text:
        return SourceRagged(place=place)
    if (column := _COLUMN.search(text)) is not None:
        cast = _CAST.search(text)
        return SourceValue(
            column=column[1], place=place, type=cast[2].strip() if cast else "the declared type"
        )
    reason = (
        "a quote is not closed within 16 MiB"
        if "unterminated quote" in text
        else "a row is malformed"
    )
    return SourceFormat(place=place, kind="CSV", reason=reason)


def _json(text: str, lowered: str) -> DponeError:
    match = _JSON.search(text)
    place = f" at record {match[2]} of {match[1]}" if match else ""
    if "maximum_object_size" in lowered:
        return SourceFieldTooLarge(place=place, bytes_max=FIELD_BYTES_MAX)
    if "malformed" in lowered or "unexpected" in lowered or "parse" in lowered:
        return SourceFormat(place=place, kind="JSON Lines", reason="a line is malformed")
    if "transform" in lowered or "cast" in lowered or "convert" in lowered:
        kind = _ENGINE_TYPE.search(text)
        found = (kind[1] or kind[2]).strip() if kind else "the declared type"
        return SourceValue(column="of the source", place=place, type=found)
    return SourceFormat(place=place, kind="JSON Lines", reason="a line is not a record")
