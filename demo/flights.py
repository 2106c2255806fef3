"""Crashes a real load after its commit, runs it again, and shows that the rows are there once.

    python demo/flights.py        (after tools/fetch_flights.py; `make demo` does both)

The page of output shows a plain load with its duplicates beside the fenced load without. The exit
code is 1 when a count is not what it should be.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import duckdb

ROOT = Path(__file__).resolve().parents[1]
CACHE = ROOT / (os.environ.get("DPONE_CACHE") or ".cache")
FLIGHTS = CACHE / "flights" / "flights.csv"
WORK = CACHE / "demo"
POINT = "fencing.commit:after#5"
MONTHS = 12
KILLED = -9
ID = re.compile(r"(?:sha256:)?\b([0-9a-f]{12})[0-9a-f]{52}\b")

ROUTE = """\
schema: dpone.route.v1
route: flights_to_warehouse
source: {csv: flights.csv, null: ["", NA]}
target: {duckdb: warehouse.duckdb, table: flights}
strategy: append
partition: {column: month}
"""

NAIVE = """\
import os, signal, duckdb
with duckdb.connect("naive.duckdb") as connection:
    flights = "SELECT * FROM read_csv('flights.csv', nullstr=['', 'NA'])"
    connection.execute("CREATE TABLE IF NOT EXISTS flights AS " + flights + " LIMIT 0")
    connection.execute("INSERT INTO flights " + flights)
    if not os.path.exists("again"):
        open("again", "w").close()
        os.kill(os.getpid(), signal.SIGKILL)   # after the commit, before anybody was told
"""


def run(*command: str) -> subprocess.CompletedProcess[str]:
    """Run a program in the work folder, with this project importable."""
    paths = [str(ROOT), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    environment.pop("DPONE_ENVIRONMENT", None)
    return subprocess.run(
        command, cwd=WORK, env=environment, capture_output=True, text=True, timeout=120
    )


def dpone(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the real command line."""
    return run(sys.executable, "-c", "from dpone.cli.main import main; main()", *arguments)


def show(text: str, *only: str) -> None:
    """Print a program's output, indented, with short ids; `only` lines that begin so."""
    left_out = 0
    for line in text.rstrip().splitlines():
        if only and not line.startswith(only):
            left_out += 1
            continue
        if left_out:
            print(f"    ... {left_out} more")
        left_out = 0
        print("    " + ID.sub(r"\1", line)[:110])


def count(database: str) -> dict[int, int]:
    """Rows by month."""
    with duckdb.connect(str(WORK / database), read_only=True) as connection:
        rows = connection.execute("SELECT month, count(*) FROM flights GROUP BY 1").fetchall()
    return dict(rows)


def expected() -> dict[int, int]:
    """Rows by month in the file itself."""
    with duckdb.connect() as connection:
        rows = connection.execute(
            "SELECT month, count(*) FROM read_csv(?, nullstr=['', 'NA']) GROUP BY 1", [str(FLIGHTS)]
        ).fetchall()
    return dict(rows)


def naive() -> int:
    """A plain load that is killed after its commit, and retried."""
    print("1. A plain load: one INSERT, killed after its commit, then retried\n")
    first = run(sys.executable, "-c", NAIVE)
    second = run(sys.executable, "-c", NAIVE)
    print(f"    first try   exit {first.returncode} (SIGKILL)")
    print(f"    retry       exit {second.returncode}")
    return sum(count("naive.duckdb").values())


def fenced() -> list[subprocess.CompletedProcess[str]]:
    """The same with dpone: killed, explained, run again, and once more."""
    (WORK / "route.yaml").write_text(ROUTE)
    print("\n2. The same file with dpone: each month is one operation\n")
    print(textwrap.indent(ROUTE, "    "))
    killed = run(
        sys.executable, "-m", "faultinject.launch", "--point", POINT, "--proof", "proof.jsonl",
        "--", "run", "route.yaml",
    )  # fmt: skip
    print(f"    $ dpone run route.yaml        killed at {POINT}: exit {killed.returncode}")
    show(killed.stdout)
    print("    proof: " + (WORK / "proof.jsonl").read_text().strip())
    explain(operation_of_month(5))
    again = dpone("run", "route.yaml")
    print(f"\n    $ dpone run route.yaml        again: exit {again.returncode}")
    show(again.stdout + again.stderr, "month=4 ", "month=5 ", "month=6 ", "12 op", "DPONE")
    once_more = dpone("run", "route.yaml")
    print(f"\n    $ dpone run route.yaml        once more: exit {once_more.returncode}")
    show(once_more.stdout + once_more.stderr, "12 op", "DPONE")
    return [killed, again, once_more]


def operation_of_month(month: int) -> str:
    """The id of one month's operation."""
    said = dpone("route", "explain", "route.yaml", "--format", "json")
    operations = json.loads(said.stdout)["operations"]
    ids = {item["partition"]: item["operation_id"] for item in operations}
    return str(ids[f"month={month}"])


def explain(operation_id: str) -> None:
    """What the journal makes of an operation, in words."""
    explained = dpone("journal", "explain", operation_id)
    print("\n    $ dpone journal explain <month 5>")
    show(explained.stdout + explained.stderr)


def history() -> None:
    """The journal's history of the operation that was killed."""
    from dpone.wiring import open_journal

    journal = open_journal(f"sqlite:{WORK / '.dpone' / 'journal.db'}")
    print("\n3. The journal's history of month 5\n")
    for row in journal.history(operation_of_month(5)):
        print(f"    {row.version:>2}  {row.event:<24} {row.source or '-':>18} -> {row.target}")
    journal.close()


def main() -> int:
    """Run the demonstration; 0 when every count is right."""
    began = time.monotonic()
    if not FLIGHTS.is_file():
        print("The flights are not there yet; run tools/fetch_flights.py first.", file=sys.stderr)
        return 1
    shutil.rmtree(WORK, ignore_errors=True)
    WORK.mkdir(parents=True)
    (WORK / "flights.csv").symlink_to(FLIGHTS)
    wanted = expected()
    rows = sum(wanted.values())
    print(f"\nFlights from New York, 2013: {rows} rows, {len(wanted)} months.\n")
    doubled = naive()
    print(f"    the table   {doubled} rows: {doubled - rows} of them are duplicates")
    runs = fenced()
    held = count("warehouse.duckdb")
    history()
    proof = json.loads((WORK / "proof.jsonl").read_text())
    checks = {
        "the plain load was doubled by its retry": doubled == 2 * rows,
        "the first dpone run was killed at its point": (
            runs[0].returncode == KILLED and proof["point"] == POINT
        ),
        "both later runs ended with exit 0": [run.returncode for run in runs[1:]] == [0, 0],
        "every month is there exactly once": held == wanted and len(held) == MONTHS,
    }
    print("\n4. What was checked\n")
    for fact, holds in checks.items():
        print(f"    {'yes' if holds else 'NO '}  {fact}")
    print(f"\n    plain load {doubled} rows, fenced load {sum(held.values())}, source {rows}.")
    print(f"    This took {time.monotonic() - began:.1f} seconds.\n")
    return 0 if all(checks.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
