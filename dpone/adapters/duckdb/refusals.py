"""What DuckDB's words mean, and how they are passed on: the first sentence, without paths."""

from __future__ import annotations

import re

import duckdb

from dpone.contracts.errors_fencing import (
    FencingError,
    TargetHeld,
    TargetInvalid,
    TargetReadOnly,
    TargetUnreachable,
)
from dpone.contracts.fence import Unknown

_HELD = ("could not set lock on file", "conflicting lock is held")
_OPEN_HERE = ("unique file handle conflict", "already attached")
_INVALID = (
    "not a valid duckdb",
    "is a directory",
    "not a directory",
    "corrupt",
    "checksum",
    "serializ",
    "could not read enough bytes",
    "replaying wal",
    "version number",
)
_DAMAGED = (duckdb.InternalException, duckdb.FatalException, duckdb.SerializationException)
_READ_ONLY = ("read-only", "permission denied", "cannot open file")
_PATH = re.compile(r'"[^"]*/[^"]*"|(?<!\w)/[^\s:"]+')
# Full stops inside quotes end no sentence: what is quoted must stay whole, so that it is hidden.
_SENTENCE = re.compile(r"""(?:"[^"]*"|'[^']*'|\.(?=\S)|[^.])*""")
_TAIL = re.compile(r"\s*\bSee also\b.*")


def cause_of(error: duckdb.Error) -> str:
    """The first sentence of the engine's own words, without paths."""
    return _sentence(_PATH.sub("<path>", _line(error))) or type(error).__name__


def is_held(error: duckdb.Error) -> bool:
    """Whether another process holds the file's lock."""
    words = _words(error)
    return isinstance(error, duckdb.IOException) and any(word in words for word in _HELD)


def is_open_here(error: duckdb.Error) -> bool:
    """Whether another engine of this very process has the file open."""
    return any(word in _words(error) for word in _OPEN_HERE)


def unknown(error: duckdb.Error) -> Unknown:
    """Nothing is concluded from this error."""
    return Unknown(cause_of(error), held=is_held(error))


def refusal(error: duckdb.Error) -> FencingError:
    """The typed error for what the engine said before anything was written."""
    cause, words = cause_of(error), _words(error)
    if is_held(error):
        return TargetHeld(target="duckdb", cause=cause)
    if isinstance(error, _DAMAGED) or any(word in words for word in _INVALID):
        return TargetInvalid(target="duckdb", cause=cause)
    if any(word in words for word in _READ_ONLY):
        return TargetReadOnly(target="duckdb", cause=cause)
    return TargetUnreachable(target="duckdb", cause=cause)


def refuse(error: duckdb.Error) -> None:
    """Raise what a person must mend; return for what may pass."""
    found = refusal(error)
    if isinstance(found, TargetInvalid | TargetReadOnly):
        raise found from error


def _line(error: duckdb.Error) -> str:
    return next(iter(str(error).splitlines()), "")


def _words(error: duckdb.Error) -> str:
    """The engine's words in lower case, without the paths, which may hold any word."""
    return _PATH.sub("<path>", str(error)).lower()


def _sentence(text: str) -> str:
    found = _SENTENCE.match(text)
    return _TAIL.sub("", found[0] if found else text).strip()
