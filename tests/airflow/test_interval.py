"""Which parts of a route belong to the data interval of a DAG run."""

from __future__ import annotations

import itertools
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from dpone.airflow.interval import window
from dpone.contracts.errors_airflow import AirflowIntervalUnfit, AirflowPartUnnamed
from dpone.contracts.route import RouteManifest, route_of
from dpone.loading.operations import Wanted
from dpone.ports.source import Partition


def _route(every: str = "", cut: str = "") -> RouteManifest:
    partition: object = "none"
    if every:
        partition = {"interval": {"column": "day", "every": every}}
    elif cut:
        partition = {"column": cut}
    return route_of(
        {
            "schema": "dpone.route.v1",
            "route": "orders",
            "source": {"csv": "orders.csv"},
            "target": {"sqlite": "w.db", "table": "orders"},
            "strategy": "append",
            "partition": partition,
        }
    )


@pytest.mark.parametrize(
    ("every", "start", "end", "since", "until"),
    [
        ("day", "2024-01-01T00:00:00Z", "2024-01-02T00:00:00Z", "2024-01-01", "2024-01-02"),
        ("day", "2024-01-01T06:00:00Z", "2024-01-02T06:00:00Z", "2024-01-01", "2024-01-02"),
        ("day", "2024-01-01T06:00:00Z", "2024-01-03T06:00:00Z", "2024-01-01", "2024-01-03"),
        ("day", "2024-02-28T00:00:00Z", "2024-03-01T00:00:00Z", "2024-02-28", "2024-03-01"),
        # Midnight in Berlin is not a day's beginning in UTC.
        ("day", "2023-12-31T23:00:00Z", "2024-01-01T23:00:00Z", "2023-12-31", "2024-01-01"),
        # In London a day of 23 hours: the day before ended with the run before, this one has not.
        ("day", "2024-03-31T00:00:00Z", "2024-03-31T23:00:00Z", "2024-03-31", "2024-03-31"),
        ("month", "2024-01-01T00:00:00Z", "2024-02-01T00:00:00Z", "2024-01-01", "2024-02-01"),
        ("month", "2023-12-15T00:00:00Z", "2024-02-15T00:00:00Z", "2023-12-01", "2024-02-01"),
        ("month", "2023-12-01T00:00:00Z", "2024-01-01T00:00:00Z", "2023-12-01", "2024-01-01"),
        ("month", "2024-01-31T23:00:00Z", "2024-02-29T23:00:00Z", "2024-01-01", "2024-02-01"),
        ("year", "2024-01-01T00:00:00Z", "2025-01-01T00:00:00Z", "2024-01-01", "2025-01-01"),
        ("year", "2023-06-01T00:00:00Z", "2025-06-01T00:00:00Z", "2023-01-01", "2025-01-01"),
    ],
)
def test_the_dates_of_an_interval(every: str, start: str, end: str, since: str, until: str) -> None:
    assert window(_route(every), start, end) == (since, until)


@pytest.mark.parametrize(
    ("every", "start", "end"),
    [
        ("day", "2024-01-01T00:00:00Z", "2024-01-01T22:59:59.999999Z"),
        ("day", "2024-01-01T10:00:00Z", "2024-01-01T11:00:00Z"),
        # The last hour holds the end of the day, but a run of each other hour would hold nothing.
        ("day", "2024-01-01T23:00:00Z", "2024-01-02T00:00:00Z"),
        ("month", "2024-01-28T00:00:00Z", "2024-02-04T00:00:00Z"),
        ("year", "2024-12-01T00:00:00Z", "2025-01-01T00:00:00Z"),
    ],
)
def test_an_interval_that_is_shorter_than_a_part_is_refused(
    every: str, start: str, end: str
) -> None:
    with pytest.raises(AirflowIntervalUnfit) as caught:
        window(_route(every), start, end)
    assert caught.value.fields == {"since": start, "until": end, "every": every}


@pytest.mark.parametrize(
    ("first", "step", "zone"),
    [
        ("2024-01-07T06:00", 7, "UTC"),
        ("2024-01-01T00:00", 1, "Europe/Berlin"),
        ("2024-01-01T00:00", 1, "Europe/London"),
        ("2024-01-01T00:00", 1, "Pacific/Auckland"),
        ("2024-01-01T00:00", 7, "America/New_York"),
    ],
)
def test_runs_that_follow_on_each_other_load_every_day_once(
    first: str, step: int, zone: str
) -> None:
    begun = datetime.fromisoformat(first)
    starts = [
        (begun + timedelta(days=step * number)).replace(tzinfo=ZoneInfo(zone)).astimezone(UTC)
        for number in range(400 // step)
    ]
    loaded = [
        day
        for start, end in itertools.pairwise(starts)
        for day in _days(*window(_route("day"), start.isoformat(), end.isoformat()))
    ]
    assert loaded == _days(loaded[0], (date.fromisoformat(loaded[-1]) + ONE).isoformat())
    assert starts[-1].date() - date.fromisoformat(loaded[-1]) == ONE


ONE = timedelta(days=1)


def _days(since: str, until: str) -> list[str]:
    first = date.fromisoformat(since)
    return [(first + ONE * n).isoformat() for n in range((date.fromisoformat(until) - first).days)]


@pytest.mark.parametrize("route", [_route(), _route(cut="grp")])
def test_other_routes_have_no_dates(route: RouteManifest) -> None:
    assert window(route, "2024-01-01T00:00:00Z", "2024-01-02T00:00:00Z") == ("", "")


@pytest.mark.parametrize(("start", "end"), [("", ""), ("2024-01-01T03:00:00Z",) * 2])
def test_a_run_that_spans_no_time_loads_everything(start: str, end: str) -> None:
    assert window(_route("day"), start, end) == ("", "")


def test_a_run_that_stands_for_a_partition_says_which_part_it_is() -> None:
    with pytest.raises(AirflowPartUnnamed) as caught:
        window(_route("day"), "", "", "2024-01-02")
    told = caught.value.report()
    assert told["exit_code"] == 2
    assert "partition='day={{ dag_run.partition_key }}'" in told["next"]
    with pytest.raises(AirflowPartUnnamed):
        window(_route("month"), "2024-01-01T00:00:00Z", "2024-02-01T00:00:00Z", "2024-01")


@pytest.mark.parametrize("route", [_route(), _route(cut="grp")])
def test_a_route_without_dates_needs_no_name(route: RouteManifest) -> None:
    assert window(route, "", "", "eu") == ("", "")


def _day(start: str, stop: str) -> Partition:
    return Partition("interval", {}, start or "missing", start, (), start=start, stop=stop)


def test_parts_within_the_dates_are_wanted() -> None:
    wanted = Wanted(since="2024-01-02", until="2024-01-04")
    days = [f"2024-01-0{day}" for day in range(1, 7)]
    found = [start for start, stop in itertools.pairwise(days) if wanted.has(_day(start, stop))]
    assert found == ["2024-01-02", "2024-01-03"]


def test_a_part_that_reaches_over_the_end_and_rows_without_a_date_are_not() -> None:
    wanted = Wanted(since="2024-01-15", until="2024-02-15")
    assert not wanted.has(_day("2024-02-01", "2024-03-01"))
    assert not wanted.has(_day("2024-01-01", "2024-02-01"))
    assert not wanted.has(_day("", ""))


def test_dates_say_nothing_of_other_parts() -> None:
    wanted = Wanted(since="2024-01-15", until="2024-02-15")
    assert wanted.has(Partition("column", {}, "grp=a", "", (), column="grp", value="a"))
