"""The parts of a route that lie in the data interval of a DAG run.

Promise: a part is loaded by the run whose interval holds it as a whole, so that no run loads half
of a day that another one loads again. Days are those of UTC, as in the route.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

from dpone.contracts.errors_airflow import AirflowIntervalUnfit
from dpone.contracts.route import Cut, RouteManifest


def window(manifest: RouteManifest, start: str, end: str) -> tuple[str, str]:
    """The dates within which parts are loaded: none for a run that spans no time.

    `start` and `end` are ISO instants. Raises `AirflowIntervalUnfit` when no part of the route
    could ever lie within.
    """
    cut = manifest.partition
    interval = cut.interval if isinstance(cut, Cut) else None
    if interval is None or not end or start == end:
        return "", ""
    since, until = _from(start), _until(end)
    first = _next(since, interval.every, whole=True)
    if _next(first, interval.every, whole=False) > until:
        raise AirflowIntervalUnfit(since=start, until=end, every=interval.every)
    return since.isoformat(), until.isoformat()


def _from(instant: str) -> date:
    """The first day that lies in the interval as a whole (UTC)."""
    moment = datetime.fromisoformat(instant).astimezone(UTC)
    at_midnight = moment == datetime(moment.year, moment.month, moment.day, tzinfo=UTC)
    return moment.date() if at_midnight else moment.date() + timedelta(days=1)


def _until(instant: str) -> date:
    """The day before which the interval ends."""
    return datetime.fromisoformat(instant).astimezone(UTC).date()


def _next(day: date, every: str, *, whole: bool) -> date:
    """The first day of a part on or after `day` (`whole`), or of the part after it."""
    if every == "day":
        return day if whole else day + timedelta(days=1)
    if every == "month":
        first = day.replace(day=1)
        if whole and first == day:
            return day
        return (first + timedelta(days=32)).replace(day=1)
    if whole and (day.month, day.day) == (1, 1):
        return day
    return date(day.year + 1, 1, 1)
