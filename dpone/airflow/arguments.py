"""What the arguments of a task may be, looked at when it runs.

Promise: what an argument cannot mean is refused before anything is opened, by its name. A template
or another task may have filled it in, so that it is known no sooner. Messages tell types and no
values, which may be secret.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from dpone.contracts.errors_airflow import AirflowArgumentInvalid

Rule = Callable[[Any], str]
"""Why a value cannot be used; empty when it can."""

# Identities hold whole numbers within 2**53 - 1.
_REVISION = re.compile("0*[1-9][0-9]{0,14}")
# What a template that finds nothing leaves within a text.
_HOLLOW = re.compile(r"(?<![^\W_])None(?![^\W_])|=\s*$")


def check(task: str, values: Mapping[str, Any], rules: Mapping[str, Rule]) -> None:
    """Hold every argument against its rule. Raises `AirflowArgumentInvalid`."""
    for name, rule in rules.items():
        if reason := rule(values[name]):
            raise AirflowArgumentInvalid(argument=name, task=task, reason=reason)


def names_nothing(value: object) -> bool:
    """Whether this is what a template gives that finds nothing."""
    return value is None or (isinstance(value, str) and value.strip() in {"", "None"})


def a_text(value: object) -> str:
    """A text, which may be empty."""
    return "" if isinstance(value, str) else _is_no(value, "text")


def a_name(value: object) -> str:
    """A text that names something."""
    if not isinstance(value, str):
        return _is_no(value, "text")
    return "it names nothing" if names_nothing(value) else ""


def a_path(value: object) -> str:
    """A path that names something."""
    return a_name(os.fspath(value) if isinstance(value, os.PathLike) else value)


def a_flag(value: object) -> str:
    """True or False."""
    return "" if isinstance(value, bool) else _is_no(value, "True or False")


def labels(value: object) -> str:
    """A text that names something, or a list of such."""
    if isinstance(value, str):
        return a_name(value)
    if not isinstance(value, Sequence) or isinstance(value, bytes | bytearray):
        return _is_no(value, "text or list of texts")
    if not value:
        return "it names nothing"
    return next((f"in its list, {reason}" for item in value if (reason := a_name(item))), "")


def connections(value: object) -> str:
    """Names of connections by names of connections."""
    if not isinstance(value, Mapping):
        return _is_no(value, "mapping")
    from dpone.adapters.projectfile.reading import variable_of

    pairs = (side for pair in value.items() for side in pair)
    if reason := next((reason for side in pairs if (reason := a_name(side))), ""):
        return f"in its mapping, {reason}"
    # Names of a route that differ in signs alone are one connection.
    is_twice = len({variable_of(name) for name in value}) < len(value)
    return "in its mapping, two names stand for one connection" if is_twice else ""


def written(rule: Rule) -> Rule:
    """As `rule`, for names that nobody compares with what there is: `day=None` names no day."""

    def held(value: Any) -> str:
        if reason := rule(value):
            return reason
        texts = [value] if isinstance(value, str) else value
        hollow = any(_HOLLOW.search(text) for text in texts)
        return "a template in it found nothing" if hollow else ""

    return held


def optional(rule: Rule) -> Rule:
    """As `rule`, or None."""
    return lambda value: "" if value is None else rule(value)


def unless_left_out(rule: Rule, *, given: bool) -> Rule:
    """As `rule`; None only where the DAG says nothing, and no template found nothing."""
    return rule if given else optional(rule)


def number_of(revision: Any, task: str) -> int | None:
    """A revision; a template gives text. Raises `AirflowArgumentInvalid`."""
    if names_nothing(revision):
        return None
    text = str(revision)
    if _REVISION.fullmatch(text):
        return int(text)
    reason = "it is no whole number above 0, or has more than 15 digits"
    raise AirflowArgumentInvalid(argument="revision", task=task, reason=reason)


def listed(value: Any) -> Any:
    """A value with a list for what Airflow reads bit by bit: what a mapped task returned."""
    if isinstance(value, dict):
        return {key: listed(item) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str | bytes | bytearray):
        return [listed(item) for item in value]
    return value


def _is_no(value: object, what: str) -> str:
    return f"it is of type {type(value).__name__} and no {what}"
