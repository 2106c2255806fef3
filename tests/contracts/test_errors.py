"""Every error says what happened, what is known and what to do, and survives a process border."""

from __future__ import annotations

import pickle
import re
import string

import pytest

from dpone.contracts.errors import EXIT_INTERNAL, FIELD_CHARS_MAX, DponeError
from dpone.contracts.errors_run import Interrupted
from tests.shape.test_places import error_codes


def _classes() -> list[type[DponeError]]:
    error_codes()  # Imports every module with errors.
    found: list[type[DponeError]] = []
    pending = list(DponeError.__subclasses__())
    while pending:
        error = pending.pop()
        pending.extend(error.__subclasses__())
        if error.__module__.startswith("dpone.") and error.code:
            found.append(error)
    return sorted(set(found), key=lambda error: error.__name__)


ERRORS = _classes()
SENTENCES = ("happened", "known", "advice")
NASTY = "/" + "srv/secret/data.csv\n\x00 {0} {other} %s \ud800"


def _fields(error: type[DponeError]) -> set[str]:
    names: set[str] = set()
    for sentence in SENTENCES:
        for _, name, _, _ in string.Formatter().parse(getattr(error, sentence)):
            if name:
                names.add(name)
    return names


def test_there_are_errors() -> None:
    assert len(ERRORS) > 50


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: error.__name__)
def test_an_error_says_all_three_things(error: type[DponeError]) -> None:
    assert re.fullmatch(r"DPONE_[A-Z0-9_]+|native_transfer_[a-z_]+", error.code)
    assert 1 <= error.exit_code <= EXIT_INTERNAL or error is Interrupted
    for sentence in SENTENCES:
        assert getattr(error, sentence).strip(), sentence
    assert error.happened.rstrip().endswith((".", "}"))
    assert error.known.rstrip().endswith((".", "}"))


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: error.__name__)
def test_an_error_survives_pickling(error: type[DponeError]) -> None:
    made = error(**dict.fromkeys(_fields(error), "x"))
    again = pickle.loads(pickle.dumps(made))
    assert type(again) is error
    assert (again.fields, str(again), again.report()) == (made.fields, str(made), made.report())


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: error.__name__)
def test_an_error_can_always_be_said(error: type[DponeError]) -> None:
    """Neither missing fields nor nasty ones break a sentence; fields are not formats."""
    assert error(unknown=1).report()["code"] == error.code
    made = error(**dict.fromkeys(_fields(error), NASTY * 50))
    for value in made.report()["fields"].values():
        assert len(value) <= FIELD_CHARS_MAX
        assert "\x00" not in value
        value.encode()
    str(made).encode()


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: error.__name__)
def test_a_sentence_holds_no_absolute_path(error: type[DponeError]) -> None:
    for sentence in SENTENCES:
        assert re.search(r"(?<![\w.>}])/[\w.]+/", getattr(error, sentence)) is None, sentence


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: error.__name__)
def test_the_report_is_closed(error: type[DponeError]) -> None:
    report = error(**dict.fromkeys(_fields(error), 1)).report()
    assert sorted(report) == [
        "code",
        "exit_code",
        "fields",
        "happened",
        "known",
        "next",
        "schema",
    ]
    assert "?" not in report["happened"] + report["known"] + report["next"].replace("--", "")
