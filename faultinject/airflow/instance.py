"""One started Airflow: scheduler, LocalExecutor, PostgreSQL metadata, and what 3.x needs beside it.

Promise: it listens on the loopback interface only, lives in one temporary folder, and all its
processes end with the process that started it, however that one ends. Detection of lost tasks is
set to seconds; nothing else differs from what users run.
"""

from __future__ import annotations

import contextlib
import os
import random
import secrets
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

import psutil
from psycopg.conninfo import conninfo_to_dict

from faultinject.airflow import guarding

DAGS = Path(__file__).parent / "dags"
# Below the usual ephemeral range, beside that of the PostgreSQL servers.
PORTS = (10_000, 17_000)
START_S = 120.0
COMMAND_S = 120.0
# Longer than a busy machine keeps a living task from its heartbeat.
LOST_S = 12
PARALLELISM = 24


class AirflowError(RuntimeError):
    """Airflow did not start or did not do as told; the message holds what it said."""


def free_port() -> int:
    """A TCP port of the loopback interface that nobody listens on now."""
    port = random.SystemRandom().randrange(*PORTS)
    with socket.socket() as probe:
        return free_port() if probe.connect_ex(("127.0.0.1", port)) == 0 else port


class Instance:
    """Airflow of one version in one folder, a context manager.

    `folder`: an empty one, which is removed at the end. `python`: the environment's Python.
    `metadata`: the connection string of an empty database on the loopback interface. `environ`:
    further variables, such as connections.
    """

    def __init__(
        self,
        folder: Path,
        version: str,
        python: Path,
        metadata: str,
        environ: Mapping[str, str],
    ) -> None:
        self.version = version
        self.is_3 = version.startswith("3.")
        self.metadata = metadata
        self.folder = folder.resolve()
        self.logs = self.folder / "logs"
        # A copy: nobody's edits are read by a running scheduler.
        shutil.copytree(DAGS, self.folder / "dags", ignore=shutil.ignore_patterns("__pycache__"))
        self._said = self.folder / "said"
        self._said.mkdir()
        self._python = python
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._port = free_port()
        self._environ = {**self._settings(), **environ}
        self._guard = guarding.watch(self.folder)

    def _settings(self) -> dict[str, str]:
        asked = conninfo_to_dict(self.metadata)
        at = f"{asked['user']}@{asked['host']}:{asked['port']}/{asked['dbname']}"
        sections: dict[str, dict[str, Any]] = {
            "core": {
                "executor": "LocalExecutor",
                "parallelism": PARALLELISM,
                "dags_folder": self.folder / "dags",
                "load_examples": False,
                "execution_api_server_url": f"http://127.0.0.1:{self._port}/execution/",
            },
            "database": {"sql_alchemy_conn": f"postgresql+psycopg2://{at}"},
            "logging": {"base_log_folder": self.logs, "logging_level": "INFO"},
            "api_auth": {"jwt_secret": secrets.token_hex(64)},
            "workers": {"min_heartbeat_interval": 1},
            "dag_processor": {"min_file_process_interval": 60, "refresh_interval": 5},
            "scheduler": {
                "scheduler_heartbeat_sec": 1,
                "orphaned_tasks_check_interval": 4,
                "scheduler_health_check_threshold": LOST_S,
                **(self._detection_3() if self.is_3 else self._detection_2()),
            },
        }
        found = {
            f"AIRFLOW__{section.upper()}__{key.upper()}": str(value)
            for section, keys in sections.items()
            for key, value in keys.items()
        }
        return {
            **found,
            "AIRFLOW_HOME": str(self.folder),
            "HOME": str(self.folder),
            "LC_ALL": "C.UTF-8",
            "NO_PROXY": "*",
            "PATH": os.pathsep.join([str(self._python.parent), os.defpath]),
            "TZ": "UTC",
        }

    def _detection_3(self) -> dict[str, int]:
        return {
            "task_instance_heartbeat_timeout": LOST_S,
            "task_instance_heartbeat_timeout_detection_interval": 1,
        }

    def _detection_2(self) -> dict[str, int]:
        return {
            "scheduler_zombie_task_threshold": LOST_S,
            # What is lost is reported at each look until somebody has dealt with it; a report that
            # comes late would end the next attempt.
            "zombie_detection_interval": 4,
            "job_heartbeat_sec": 1,
            "min_file_process_interval": 60,
            "parsing_processes": 1,
        }

    # -- life ----------------------------------------------------------------------------------

    def __enter__(self) -> Instance:
        try:
            self.command("db", "migrate")
            if self.is_3:
                apps = ["--apps", "execution", "--workers", "1", "--host", "127.0.0.1"]
                self.start("api-server", "api-server", *apps, "--port", str(self._port))
                self.start("dag-processor", "dag-processor")
            self.start_scheduler()
            if self.is_3:
                self.until(self._answers, "the api server answers", START_S)
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End every process and remove the folder."""
        guarding.end(self.folder)
        for process in self._processes.values():
            process.wait()
        self._guard.kill()
        self._guard.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _answers(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self._port)) == 0

    def start(self, name: str, *words: str) -> None:
        """Start one of Airflow's programs."""
        with (self._said / f"{name}.log").open("ab") as said:
            self._processes[name] = subprocess.Popen(
                [str(self._python), "-m", "airflow", *words],
                cwd=self.folder,
                env=self._environ,
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        with (self.folder / guarding.SESSIONS).open("a") as sessions:
            sessions.write(f"{self._processes[name].pid}\n")

    def start_scheduler(self) -> None:
        """Start the scheduler, the first one or the next."""
        # Otherwise a log server listens on every interface.
        self.start("scheduler", "scheduler", "--skip-serve-logs")

    def kill_scheduler(self) -> int:
        """SIGKILL the scheduler alone; its workers go on. Its pid."""
        process = self._processes["scheduler"]
        process.kill()
        process.wait()
        return process.pid

    # -- use -----------------------------------------------------------------------------------

    def command(self, *words: str) -> str:
        """Run one command of Airflow to its end; what it said."""
        return self.call("-m", "airflow", *words)

    def call(self, *words: str) -> str:
        """Run the environment's Python to its end; what it said."""
        try:
            done = subprocess.run(
                [str(self._python), *words],
                cwd=self.folder,
                env=self._environ,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=COMMAND_S,
                check=False,
            )
        except subprocess.TimeoutExpired as problem:
            raise AirflowError(f"{' '.join(words)} took more than {COMMAND_S:g} s") from problem
        said = done.stdout + done.stderr
        if done.returncode != 0:
            raise AirflowError(f"{' '.join(words)} ended with {said[-1500:]}")
        return said

    def until(self, fact: Callable[[], bool], what: str, wait_s: float) -> None:
        """Poll a fact; raise when it does not come true or a program of Airflow has ended."""
        deadline = time.monotonic() + wait_s
        while not fact():
            self.alive()
            if time.monotonic() > deadline:
                raise AirflowError(f"{what}: not within {wait_s:g} s")
            time.sleep(0.1)

    def alive(self) -> None:
        """Raise when a program of Airflow has ended by itself."""
        for name, process in list(self._processes.items()):
            if process.poll() not in (None, -9):
                raise AirflowError(f"{name} ended: {self.said(name)[-2000:]}")

    def said(self, name: str) -> str:
        """What a program printed."""
        path = self._said / f"{name}.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def log(self, dag_id: str, run_id: str, map_index: int, attempt: int) -> str:
        """What the log of one attempt holds; empty when there is none."""
        found = self.log_file(dag_id, run_id, map_index, attempt)
        return found.read_text(errors="replace") if found.exists() else ""

    def log_file(self, dag_id: str, run_id: str, map_index: int, attempt: int) -> Path:
        """Where the log of one attempt is; its processes have it open until they end."""
        mapped = f"map_index={map_index}/" if map_index >= 0 else ""
        path = self.logs / f"dag_id={dag_id}/run_id={run_id}/task_id=load/{mapped}"
        return path / f"attempt={attempt}.log"

    def writing(self, logs: Collection[Path]) -> set[int]:
        """The processes that still have one of these logs open."""
        return guarding.writing(self.folder, logs)

    def keep(self, folder: Path) -> None:
        """Copy what Airflow has written to its logs, for people."""
        shutil.copytree(self.logs, folder / "logs")
        shutil.copytree(self._said, folder / "said")

    def strangers(self) -> list[str]:
        """What is wrong with the addresses on which the instance listens."""
        heard = self.listening()
        # Where the task API is not seen to listen, nothing was seen.
        seen = not self.is_3 or ("127.0.0.1", self._port) in heard
        faults = [] if seen and guarding.family(self.folder) else ["no process of it was seen"]
        outside = sorted({address for address, _ in heard if not address.startswith("127.")})
        return faults + [f"listens on {address}" for address in outside]

    def listening(self) -> set[tuple[str, int]]:
        """Every address and port on which a process of this instance listens."""
        found = set()
        for process in guarding.family(self.folder):
            with contextlib.suppress(psutil.Error, OSError):
                for connection in process.net_connections(kind="inet"):
                    if connection.status == "LISTEN":
                        found.add((str(connection.laddr.ip), int(connection.laddr.port)))
        return found
