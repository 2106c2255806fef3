"""The base of every error: one class per code, and messages built from named fields.

An error says, in this order: what was refused or happened, what is known to be true now, and
what to run next. Fields never hold absolute paths, file bytes, connection strings or secrets.
The catalogue in `docs/reference/errors` is generated from these classes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar, Self

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
    sentences with `{field}` places that are filled from the constructor's keywords. `kept` and
    `left` name what a run had found to keep, or to leave, before it was refused.
    """

    code: ClassVar[str] = ""
    exit_code: ClassVar[int] = EXIT_INTERNAL
    happened: ClassVar[str] = ""
    known: ClassVar[str] = ""
    advice: ClassVar[str] = ""

    def __init__(self, **fields: Any) -> None:
        self.fields = {name: _short(value) for name, value in fields.items()}
        self.kept: tuple[str, ...] = ()
        self.left: tuple[str, ...] = ()
        self.is_after = False
        super().__init__(f"{self.code}: {self.fill(self.sentences()[0])}")

    def sentences(self) -> tuple[str, str, str]:
        """What happened, what is known and what to do next, before their places are filled."""
        return self.happened, self.known, self.advice

    def after(self, *, kept: Iterable[str] = (), left: Iterable[str] = ()) -> Self:
        """The same error, of a run that had taken up an interrupted change before.

        `kept`: project-relative names under which it kept bytes; `left`: files that it left where
        they are. Nothing else may tell of them, so the error does.
        """
        self.is_after = True
        self.kept = tuple(dict.fromkeys((*self.kept, *kept)))
        self.left = tuple(dict.fromkeys((*self.left, *left)))
        return self

    def fill(self, sentence: str) -> str:
        """Return `sentence` with this error's fields put in."""
        return sentence.format_map(_Fields(self.fields))

    def __reduce__(self) -> tuple[Any, ...]:
        prior = (self.kept, self.left) if self.is_after else None
        return (_rebuild, (type(self), self.fields, prior))

    def report(self) -> dict[str, Any]:
        """Return the closed JSON form: code, exit, happened, known, next, fields."""
        happened, known, advice = map(self.fill, self.sentences())
        told = {"kept": self.kept, "left": self.left}
        names = {name: _short(", ".join(paths)) for name, paths in told.items() if paths}
        fields = {**self.fields, **names}
        return {
            "schema": "dpone.error.v1",
            "code": self.code,
            "exit_code": self.exit_code,
            "happened": happened,
            "known": f"{known} {self._before()}" if self.is_after else known,
            "next": advice,
            "fields": {name: str(value) for name, value in sorted(fields.items())},
        }

    def _before(self) -> str:
        words = "Before that, this run took up an interrupted change"
        words += f"; kept of it: {', '.join(self.kept)}" if self.kept else ""
        words += f"; left as it is: {', '.join(self.left)}" if self.left else ""
        return words + "."


class _Fields(dict[str, Any]):
    def __missing__(self, key: str) -> str:
        return "?"


def _short(value: Any) -> Any:
    if isinstance(value, int):
        return value
    text = str(value).replace("\x00", "\\0")
    text = text.encode("utf-8", "backslashreplace").decode("utf-8")
    return text if len(text) <= FIELD_CHARS_MAX else text[: FIELD_CHARS_MAX - 1] + "…"


def _rebuild(
    kind: type[DponeError],
    fields: dict[str, Any],
    prior: tuple[tuple[str, ...], tuple[str, ...]] | None = None,
) -> DponeError:
    made = kind(**fields)
    return made if prior is None else made.after(kept=prior[0], left=prior[1])


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
