"""What a DAG file pays for importing `dpone.airflow`.

Runs with the Python of an environment that has Airflow, for each in `make airflow`; by hand
`PYTHONPATH=. <its python> -m bench.airflow_parse`. With `--json` the figures are printed as JSON.

A file with the operator is parsed in a new process, in turn with the same file without it.
"""

from __future__ import annotations

import dataclasses
import json
import statistics
import subprocess
import sys
import tempfile
import time

from bench.measure import Figure

ROUNDS = 9
BOUND_S = 0.15
_BARE = """
try:
    from airflow.sdk import DAG, BaseOperator, task
except ImportError:
    from airflow import DAG
    from airflow.decorators import task
    from airflow.models.baseoperator import BaseOperator
import datetime
with DAG("parsed", schedule=None, start_date=datetime.datetime(2024, 1, 1)) as dag:
    BaseOperator(task_id="load")
    @task
    def write(region): pass
    write("eu")
"""
_IMPORT = "from dpone.airflow import DponeRunOperator, dpone_task\n"
_OURS = (
    _BARE.replace("import datetime\n", "import datetime\n" + _IMPORT)
    .replace('BaseOperator(task_id="load")', 'DponeRunOperator(task_id="load", manifest="r.yaml")')
    .replace("@task\n", '@dpone_task(target="w")\n')
    .replace("write(region)", "write(transaction, region)")
)
# Airflow itself looks through all providers when a decorator of one is asked for by name.
_NAMED = _OURS.replace("@dpone_task", "@task.dpone")
_SEARCHED = _BARE + "getattr(task, 'of_no_provider', None)\n"


def figures() -> list[Figure]:
    """Seconds that the import adds, as the median of the differences within pairs."""
    return [
        _figure("parse of a DAG file: added by dpone", _OURS, _BARE),
        _figure("the same with @task.dpone, beside Airflow's search for it", _NAMED, _SEARCHED),
    ]


def _figure(name: str, ours: str, bare: str) -> Figure:
    with tempfile.TemporaryDirectory() as folder:
        for script in (ours, bare):
            _seconds(script, folder)
        pairs = [(_seconds(ours, folder), _seconds(bare, folder)) for _ in range(ROUNDS)]
    added = statistics.median(mine - other for mine, other in pairs)
    whole = statistics.median(other for _, other in pairs)
    return Figure(name, added, BOUND_S, "s", note=f"without {whole:.2f} s")


def _seconds(script: str, folder: str) -> float:
    start = time.perf_counter()
    # From another folder, so that the installed package is what is imported.
    subprocess.run([sys.executable, "-c", script], cwd=folder, check=True, capture_output=True)
    return time.perf_counter() - start


def main() -> int:
    """Print the figures; 1 when one is not met."""
    found = figures()
    if "--json" in sys.argv[1:]:
        print(json.dumps([dataclasses.asdict(figure) for figure in found]))
    else:
        print(*(figure.line() for figure in found), sep="\n")
    return 0 if all(figure.met for figure in found) else 1


if __name__ == "__main__":
    sys.exit(main())
