"""`python -m faultinject.airflow --airflow 3.3.2 --python 3.11`: one session, and what it saw."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from faultinject.airflow.scenarios import chosen
from faultinject.airflow.session import started
from tools.airflow_env import PYTHONS, Absent, held, versions
from tools.setup_env import Refused


def say(text: str) -> None:
    """One line for people, at once."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def main(argv: Sequence[str] | None = None) -> int:
    """Run; 0 when nothing is wrong, 3 when it could not be run here."""
    parser = argparse.ArgumentParser(prog="python -m faultinject.airflow", description=__doc__)
    parser.add_argument("--airflow", choices=versions(), required=True)
    parser.add_argument("--python", choices=PYTHONS, required=True)
    parser.add_argument("--scenario", action="append", default=[], help="name or its beginning")
    parser.add_argument("--keep", type=Path, help="copy Airflow's logs to this new folder")
    given = parser.parse_args(argv)
    start = time.monotonic()
    try:
        with (
            held(given.airflow, given.python) as python,
            started(given.airflow, python, chosen(given.scenario)) as session,
        ):
            say(f"started after {time.monotonic() - start:.0f} s")
            session.run(chosen(given.scenario))
            if given.keep:
                session.lab.airflow.keep(given.keep)
            strangers = session.lab.airflow.strangers()
    except (Absent, Refused) as reason:
        say(f"UNVERIFIED: {reason}")
        return 3
    for record in session.records:
        say(
            f"{record['name']:28} rows {record['rows']} attempts {record['attempts']}"
            f" {record['seconds']:6} s  {'; '.join(record['faults'])[:1500] or 'held'}"
        )
    say(f"{'; '.join(strangers) or 'listens on the loopback interface only'}")
    say(f"{time.monotonic() - start:.0f} s")
    return int(bool(strangers) or any(record["faults"] for record in session.records))


if __name__ == "__main__":
    sys.exit(main())
