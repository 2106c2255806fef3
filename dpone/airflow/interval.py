"""The parts of a route that belong to the data interval of a DAG run.

Promise: a part is loaded by the run in whose interval it ends. So of runs whose intervals follow on
each other every part is loaded by one, as a whole, wherever the intervals are cut. Days are those
of UTC, as in the route.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

from dpone.contracts.errors_airflow import AirflowIntervalUnfit, AirflowPartUnnamed
from dpone.contracts.route import Cut, RouteManifest

_WRITTEN = "2024-01-01"
# A change of the clocks shortens a local day, month or year by an hour at most.
_SHORTEST = {
    "day": timedelta(hours=23),
    "month": timedelta(days=28, hours=-1),
    "year": timedelta(days=365, hours=-1),
}


def window(
    manifest: RouteManifest, start: str, end: str, partition_key: str = ""
) -> tuple[str, str]:
    """The dates within which parts are loaded: none for a run that spans no time.

    `start` and `end` are ISO instants. Raises `AirflowIntervalUnfit` when the interval is shorter
    than a part, and `AirflowPartUnnamed` for a run that stands for a partition: its key may be
    written in any way.
    """
    cut = manifest.partition
    interval = cut.interval if isinstance(cut, Cut) else None
    if interval is None:
        return "", ""
    if partition_key:
        example = f"'{interval.column}={{{{ dag_run.partition_key }}}}'"
        raise AirflowPartUnnamed(
            key=partition_key, every=interval.every, example=example, written=_WRITTEN
        )
    if not end or start == end:
        return "", ""
    since, until = datetime.fromisoformat(start), datetime.fromisoformat(end)
    if until - since < _SHORTEST[interval.every]:
        raise AirflowIntervalUnfit(since=start, until=end, every=interval.every)
    return _beginning(since, interval.every).isoformat(), _beginning(
        until, interval.every
    ).isoformat()


def _beginning(moment: datetime, every: str) -> date:
    """The first day of the part that holds a moment."""
    day = moment.astimezone(UTC).date()
    if every == "day":
        return day
    return day.replace(day=1) if every == "month" else day.replace(month=1, day=1)
