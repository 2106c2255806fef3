"""`dpone run` of ten million rows against the engine's own statement, and its memory."""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from bench.measure import Figure
from faultinject.postgres import PostgresServer

FLIGHTS = Path(__file__).resolve().parent.parent / ".cache" / "flights" / "flights.csv"
COPIES = {"large": 30, "small": 3}
"""How often the 336,776 real flights stand in a file: ten million rows, and one."""
ROUNDS = 3
_COLUMNS = {
    "year": "integer",
    "month": "integer",
    "day": "integer",
    "dep_time": "integer",
    "sched_dep_time": "integer",
    "dep_delay": "integer",
    "arr_time": "integer",
    "sched_arr_time": "integer",
    "arr_delay": "integer",
    "carrier": "text",
    "flight": "integer",
    "tailnum": "text",
    "origin": "text",
    "dest": "text",
    "air_time": "integer",
    "distance": "integer",
    "hour": "integer",
    "minute": "integer",
    "time_hour": "timestamp",
}
_TABLE = "(" + ", ".join(f"{name} {kind}" for name, kind in _COLUMNS.items()) + ")"

_DUCKDB = """
import sys, duckdb
c = duckdb.connect(sys.argv[1])
c.execute("SET enable_progress_bar = false")
c.execute("CREATE TABLE rows_in {table}")
c.execute("INSERT INTO rows_in SELECT * FROM {reader}('" + sys.argv[2] + "')")
c.close()
"""
_TABLE_ONLY = """
import sys, duckdb
duckdb.connect(sys.argv[1]).execute("CREATE TABLE rows_in {table}")
"""
_COPY = """
import sys, psycopg
with psycopg.connect(sys.argv[1]) as c, open(sys.argv[2], "rb") as f:
    with c.cursor().copy("COPY rows_in FROM STDIN (FORMAT csv, HEADER true)") as copy:
        while block := f.read(1 << 20):
            copy.write(block)
"""


class Run(NamedTuple):
    """Seconds of the wall clock and the largest resident memory in MB of one process."""

    seconds: float
    memory_mb: float


def _run(command: list[str], folder: Path, extra: dict[str, str] | None = None) -> Run:
    start = time.perf_counter()
    process = subprocess.Popen(
        command,
        cwd=folder,
        env={**ordinary_environment(), **(extra or {})},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    assert process.stderr is not None
    said = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.stderr.close()
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"{command[:4]} ended with {process.returncode}: {said[-600:]!r}")
    return Run(time.perf_counter() - start, usage.ru_maxrss / 1024)


def ordinary_environment() -> dict[str, str]:
    """The environment of an ordinary installation, which keeps compiled modules."""
    kept = ("PYTHONDONTWRITEBYTECODE",)
    return {name: value for name, value in os.environ.items() if name not in kept}


def _dpone(manifest: str) -> list[str]:
    return [sys.executable, "-m", "dpone", "run", manifest]


_MAKE = """
import sys, duckdb
flights, folder, types, copies = sys.argv[1], sys.argv[2], sys.argv[3], eval(sys.argv[4])
connection = duckdb.connect()
connection.execute("SET enable_progress_bar = false")
connection.execute(
    f"CREATE TABLE flights AS SELECT * FROM read_csv('{flights}', nullstr='NA',"
    f" columns={types}, auto_detect=false, header=true)"
)
for name, times in copies.items():
    for form, options in (("csv", "HEADER"), ("parquet", "FORMAT parquet")):
        connection.execute(
            f"COPY (SELECT f.* FROM flights f, range({times}))"
            f" TO '{folder}/{name}.{form}' ({options})"
        )
"""


@contextmanager
def _data() -> Iterator[Path]:
    """A folder with the files, made by another process: a child's figure of its memory begins
    with what its parent holds."""
    folder = Path(tempfile.mkdtemp(prefix="dpone-loads-"))
    try:
        command = [sys.executable, "-c", _MAKE, str(FLIGHTS), str(folder)]
        subprocess.run([*command, str(_COLUMNS), str(COPIES)], check=True)
        yield folder
    finally:
        shutil.rmtree(folder)


def _manifest(folder: Path, form: str, size: str, target: str) -> str:
    name = f"{form}-{size}-{target.partition(':')[0]}.yaml"
    (folder / name).write_text(
        "schema: dpone.route.v1\n"
        f"route: bench\nsource: {{{form}: {size}.{form}}}\n"
        f"target: {{{target}, table: rows_in}}\nstrategy: append\n"
    )
    return name


def load_figures(server: PostgresServer) -> Iterator[Figure]:
    with _data() as folder:
        for form in ("csv", "parquet"):
            yield from _duckdb(folder, form)
        with server.database() as dsn:
            yield from _postgres(folder, server, dsn)


def _duckdb(folder: Path, form: str) -> Iterator[Figure]:
    target = folder / "target.duckdb"
    ours: list[float] = []
    theirs: list[float] = []
    memory: dict[str, float] = {}
    for size in ("small", "large"):
        manifest = _manifest(folder, form, size, "duckdb: target.duckdb")
        for _ in range(ROUNDS):
            _clear(folder, target)
            _run([sys.executable, "-c", _TABLE_ONLY.format(table=_TABLE), str(target)], folder)
            run = _run(_dpone(manifest), folder)
            memory[size] = max(memory.get(size, 0), run.memory_mb)
            if size == "large":
                ours.append(run.seconds)
                _clear(folder, target)
                script = _DUCKDB.format(table=_TABLE, reader=f"read_{form}")
                file = str(folder / f"{size}.{form}")
                bare = [sys.executable, "-c", script, str(target), file]
                theirs.append(_run(bare, folder).seconds)
    yield _ratio(f"dpone run of 10 million rows, {form} into DuckDB", ours, theirs, 1.1)
    yield Figure(
        f"memory at 10 million rows against 1 million, {form} into DuckDB",
        memory["large"] / memory["small"],
        1.2,
        "x",
        note=f"{memory['large']:.0f} MB and {memory['small']:.0f} MB",
    )


def _postgres(folder: Path, server: PostgresServer, dsn: str) -> Iterator[Figure]:
    import psycopg

    extra = {"DPONE_CONNECTION_WAREHOUSE": f"postgres:{dsn}"}
    for form in ("csv", "parquet"):
        ours: list[float] = []
        theirs: list[float] = []
        memory: dict[str, float] = {}
        for size in ("small", "large"):
            manifest = _manifest(folder, form, size, "postgres: warehouse")
            for _ in range(ROUNDS):
                with psycopg.connect(dsn, autocommit=True) as admin:
                    _clear(folder, folder / "none")
                    _fresh(admin)
                    run = _run(_dpone(manifest), folder, extra)
                    memory[size] = max(memory.get(size, 0), run.memory_mb)
                    if size == "large":
                        ours.append(run.seconds)
                        _fresh(admin)
                        script = [sys.executable, "-c", _COPY, dsn, str(folder / f"{size}.csv")]
                        theirs.append(_run(script, folder).seconds)
        name = f"dpone run of 10 million rows, {form} into PostgreSQL, against COPY"
        yield _ratio(name, ours, theirs, 1.15)
        yield Figure(
            f"memory at 10 million rows against 1 million, {form} into PostgreSQL",
            memory["large"] / memory["small"],
            1.2,
            "x",
            note=f"{memory['large']:.0f} MB and {memory['small']:.0f} MB",
        )


def _fresh(admin: object) -> None:
    execute = admin.execute  # type: ignore[attr-defined]
    execute("DROP TABLE IF EXISTS rows_in, dpone_fence, dpone_fence_meta")
    execute(f"CREATE TABLE rows_in {_TABLE}")
    execute("CHECKPOINT")


def _clear(folder: Path, target: Path) -> None:
    shutil.rmtree(folder / ".dpone", ignore_errors=True)
    target.unlink(missing_ok=True)


def _ratio(name: str, ours: list[float], theirs: list[float], bound: float) -> Figure:
    pairs = sorted(mine / other for mine, other in zip(ours, theirs, strict=True))
    note = f"ours {statistics.median(ours):.2f} s, bare {statistics.median(theirs):.2f} s"
    return Figure(name, statistics.median(pairs), bound, "x", note=note)
