"""The base of every error: one class per code, and messages built from named fields.

An error says, in this order: what was refused or happened, what is known to be true now, and
what to run next. Fields never hold absolute paths, file bytes, connection strings or secrets.
The catalogue in `docs/reference/errors` is generated from these classes.
"""

from __future__ import annotations

from typing import Any, ClassVar

EXIT_DONE = 0
EXIT_CONFLICT = 1
EXIT_USAGE = 2
EXIT_LATER = 3
EXIT_CLOSED = 4
EXIT_INTERNAL = 5

FIELD_CHARS_MAX = 400


class DponeError(Exception):
    """Base of all errors of this library; never raised itself.

    `code` is stable. `exit_code` is the command line's. `happened`, `known` and `advice` are
    sentences with `{field}` places that are filled from the constructor's keywords.
    """

    code: ClassVar[str] = ""
    exit_code: ClassVar[int] = EXIT_INTERNAL
    happened: ClassVar[str] = ""
    known: ClassVar[str] = ""
    advice: ClassVar[str] = ""

    def __init__(self, **fields: Any) -> None:
        self.fields = {name: _short(value) for name, value in fields.items()}
        super().__init__(f"{self.code}: {self.fill(self.happened)}")

    def fill(self, sentence: str) -> str:
        """Return `sentence` with this error's fields put in."""
        return sentence.format_map(_Fields(self.fields))

    def __reduce__(self) -> tuple[Any, ...]:
        return (_rebuild, (type(self), self.fields))

    def report(self) -> dict[str, Any]:
        """Return the closed JSON form: code, exit, happened, known, next, fields."""
        return {
            "schema": "dpone.error.v1",
            "code": self.code,
            "exit_code": self.exit_code,
            "happened": self.fill(self.happened),
            "known": self.fill(self.known),
            "next": self.fill(self.advice),
            "fields": {name: str(value) for name, value in sorted(self.fields.items())},
        }


class _Fields(dict[str, Any]):
    def __missing__(self, key: str) -> str:
        return "?"


def _short(value: Any) -> Any:
    if isinstance(value, int):
        return value
    text = str(value).replace("\x00", "\\0")
    text = text.encode("utf-8", "backslashreplace").decode("utf-8")
    return text if len(text) <= FIELD_CHARS_MAX else text[: FIELD_CHARS_MAX - 1] + "…"


def _rebuild(kind: type[DponeError], fields: dict[str, Any]) -> DponeError:
    return kind(**fields)


class IllegalTransition(DponeError):
    """The transition table has no such row: a defect of this library."""

    code = "DPONE_INTERNAL_TRANSITION"
    exit_code = EXIT_INTERNAL
    happened = "The protocol has no transition from {source} on {event}."
    known = "Nothing was written by this step."
    advice = "Report this with the output of: dpone journal show."


class NotCanonical(DponeError):
    """A value lies outside the canonical JSON profile."""

    code = "DPONE_CONTRACT_NOT_CANONICAL"
    exit_code = EXIT_CONFLICT
    happened = "The value at {place} cannot be digested: {reason}."
    known = "Nothing was written."
    advice = "Use strings, whole numbers within 2**53 - 1, booleans, null, lists and objects."


class ContractInvalid(DponeError):
    """Bytes or values do not satisfy a closed contract."""

    code = "DPONE_CONTRACT_INVALID"
    exit_code = EXIT_CLOSED
    happened = "The {contract} contract is not satisfied: {reason}."
    known = "The bytes were left as they are."
    advice = "Compare with the published schema: dpone schema."


class ExtraMissing(DponeError):
    """An optional client library is not installed."""

    code = "DPONE_EXTRA_MISSING"
    exit_code = EXIT_USAGE
    happened = "This needs the {extra} extra, which is not installed."
    known = "Nothing was read or written."
    advice = 'Run: pip install "dpone[{extra}]"'
