"""A DuckDB file that is looked at in an engine which is kept."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from dpone.adapters.duckdb.opening import DuckdbFile

LOOK = "SELECT count(*) FROM rows_in"
COUNT = "import sys, duckdb; print(duckdb.connect(sys.argv[1]).execute(sys.argv[2]).fetchall())"


@pytest.fixture
def file(tmp_path: Path) -> Iterator[DuckdbFile]:
    path = tmp_path / "it's here.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute("CREATE TABLE rows_in (i INTEGER)")
    found = DuckdbFile(path, {"memory_limit": "100MB"}, 0.2, keeping=True)
    yield found
    found.close()


def _elsewhere(path: Path, sql: str = LOOK) -> str:
    """What another process sees, or why it cannot look."""
    command = [sys.executable, "-c", COUNT, str(path), sql]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip() or done.stderr


def test_the_engine_is_kept_and_the_file_is_not(file: DuckdbFile) -> None:
    kept = []
    for _ in range(2):
        with file.glance() as connection:
            assert connection.execute(LOOK).fetchall() == [(0,)]
            assert "lock" in _elsewhere(file.path).lower()
            kept.append(connection)
        assert _elsewhere(file.path) == "[(0,)]"
    assert kept[0] is kept[1]


def test_what_was_written_in_a_look_is_there(file: DuckdbFile) -> None:
    with file.glance() as connection:
        connection.execute("INSERT INTO rows_in VALUES (1)")
    assert _elsewhere(file.path) == "[(1,)]"


def test_an_open_transaction_is_rolled_back(file: DuckdbFile) -> None:
    with file.glance() as connection:
        connection.execute("BEGIN")
        connection.execute("INSERT INTO rows_in VALUES (1)")
    assert _elsewhere(file.path) == "[(0,)]"
    with file.glance() as connection:
        assert connection.execute(LOOK).fetchall() == [(0,)]


def test_after_an_error_the_engine_is_another_one(file: DuckdbFile) -> None:
    with file.glance() as first:
        pass
    with pytest.raises(duckdb.CatalogException), file.glance() as connection:
        connection.execute("SELECT * FROM nowhere")
    with file.glance() as second:
        assert second is not first
        assert second.execute(LOOK).fetchall() == [(0,)]
    assert _elsewhere(file.path) == "[(0,)]"


def test_a_look_beside_a_connection_of_the_same_process_shares_it(file: DuckdbFile) -> None:
    config: dict[str, str | bool | int | float | list[str]] = {"memory_limit": "100MB"}
    with duckdb.connect(str(file.path), config=config) as own:
        own.execute("INSERT INTO rows_in VALUES (1)")
        with file.glance() as connection:
            assert connection.execute(LOOK).fetchall() == [(1,)]


def test_who_opens_the_file_waits_for_a_look_of_the_same_process(file: DuckdbFile) -> None:
    file.lock_wait_s = 10.0
    seen: list[object] = []

    def unit() -> None:
        with file.open() as connection:
            seen.extend(connection.execute(LOOK).fetchall())

    with file.glance():
        thread = threading.Thread(target=unit)
        thread.start()
        thread.join(0.2)
        assert seen == []
    thread.join()
    assert seen == [(0,)]


def test_another_process_is_waited_for_and_then_told(file: DuckdbFile) -> None:
    script = (
        "import sys, duckdb; c = duckdb.connect(sys.argv[1]);"
        " print('held', flush=True); sys.stdin.readline()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script, str(file.path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(duckdb.IOException, match="lock"), file.glance():
            raise AssertionError("the file is held")
        holder.communicate("\n")
    with file.glance() as connection:
        assert connection.execute(LOOK).fetchall() == [(0,)]
