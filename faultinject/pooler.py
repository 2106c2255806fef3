"""A pooler in transaction mode that treats sessions worse than a real one likes to.

Promise: between two transactions a client moves to another server connection whenever one is
free, so whatever lives in a session (SET, advisory locks, prepared statements, temporary
tables) is lost to its client and met by another. `switches` counts the moves.

Not promised: authentication (the server must trust the pooler), encryption, or any reset of a
server connection; one that a client leaves inside a transaction is replaced by a new one.

The reading of protocol messages here also serves the proxy.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import socket
import struct
import threading
from collections.abc import Coroutine, Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

from psycopg.conninfo import conninfo_to_dict, make_conninfo

T = TypeVar("T")
SYNC = b"S\x00\x00\x00\x04"
WAIT_S = 60.0
_SSL, _GSS, CANCEL = 80877103, 80877104, 80877102
_PROTOCOL = 3 << 16


class LoopThread:
    """An event loop in a thread of its own, so that it can serve blocking clients."""

    def __init__(self, name: str) -> None:
        self.loop = asyncio.new_event_loop()
        self._held: set[asyncio.Task[Any]] = set()
        self._thread = threading.Thread(target=self.loop.run_forever, name=name, daemon=True)
        self._thread.start()

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in the loop and return its result, at most WAIT_S seconds later."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(WAIT_S)

    def hold(self) -> None:
        """Keep the current task alive: a loop, and streams without a peer, only know it weakly."""
        task = asyncio.current_task(self.loop)
        assert task is not None
        self._held.add(task)
        task.add_done_callback(self._held.discard)

    def close(self, writers: Iterable[asyncio.StreamWriter] = ()) -> None:
        """Cancel what runs, reset `writers`, end the thread and release the loop."""
        if not self.loop.is_closed():
            self.call(self._cancel_all(writers))
            self.loop.call_soon_threadsafe(self.loop.stop)
            self._thread.join(WAIT_S)
            self.loop.close()

    async def _cancel_all(self, writers: Iterable[asyncio.StreamWriter]) -> None:
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for writer in writers:
            reset(writer)
        await asyncio.sleep(0)  # The aborted transports close in the next round.


async def read_startup(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
    """Decline encryption as often as it is asked for; return the startup or cancel packet."""
    while True:
        head = await reader.readexactly(8)
        length, code = struct.unpack("!ii", head)
        body = await reader.readexactly(length - 8)
        if code not in (_SSL, _GSS):
            return head + body
        writer.write(b"N")


async def read_frame(reader: asyncio.StreamReader) -> bytes:
    """Read one typed message whole: type byte, length, body."""
    head = await reader.readexactly(5)
    return head + await reader.readexactly(int.from_bytes(head[1:], "big") - 4)


async def open_server(dsn: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Connect to the server of a connection string, by unix socket or TCP."""
    parts = conninfo_to_dict(dsn)
    host, port = str(parts.get("host", "127.0.0.1")), int(parts.get("port") or 5432)
    if host.startswith("/"):
        return await asyncio.open_unix_connection(f"{host}/.s.PGSQL.{port}")
    return await asyncio.open_connection(host, port)


def reset(writer: asyncio.StreamWriter) -> None:
    """Close a connection so that its peer sees a reset, not an orderly end."""
    with contextlib.suppress(OSError):
        peer: socket.socket = writer.get_extra_info("socket")
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


def error_field(frame: bytes, field: bytes) -> str:
    """Return one field of an ErrorResponse, for example b"C", the SQLSTATE."""
    found = [part[1:] for part in frame[5:].split(b"\0") if part[:1] == field]
    return found[0].decode() if found else ""


def _frame(kind: bytes, body: bytes) -> bytes:
    return kind + struct.pack("!i", len(body) + 4) + body


@dataclass(eq=False, slots=True)
class _Backend:
    """One server connection: its reader, writer, process id and reported parameters."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    pid: int
    parameters: bytes


async def _connect(dsn: str, opened: list[asyncio.StreamWriter]) -> _Backend:
    """Open a session as the user of `dsn`; raise ConnectionError when it is not trusted.

    The writer joins `opened` first: whoever cancels this can still close it.
    """
    reader, writer = await open_server(dsn)
    opened.append(writer)
    parts = conninfo_to_dict(dsn)
    wanted = {"user": parts.get("user"), "database": parts.get("dbname"), "client_encoding": "UTF8"}
    body = b"".join(f"{key}\0{value}\0".encode() for key, value in wanted.items()) + b"\0"
    writer.write(struct.pack("!ii", len(body) + 8, _PROTOCOL) + body)
    parameters, pid = b"", 0
    while (frame := await read_frame(reader))[:1] != b"Z":
        kind = frame[:1]
        if kind == b"E" or (kind == b"R" and frame[5:9] != bytes(4)):
            raise ConnectionError(error_field(frame, b"M") or "the server asks for a password")
        if kind == b"S":
            parameters += frame
        elif kind == b"K":
            pid = int.from_bytes(frame[5:9], "big")
    return _Backend(reader, writer, pid, parameters)


class TransactionPooler:
    """A pool of `size` server connections that clients share by the transaction.

    A context manager; its methods may be called from any thread. When only the connection a
    client had last is free, it gets that one again and `repeats` counts it. When none is free
    it waits, and is reset after WAIT_S seconds.
    """

    def __init__(self, target_dsn: str, *, size: int = 2) -> None:
        self._dsn = target_dsn
        self.switches = 0
        self.repeats = 0
        self.assignments: list[tuple[int, int]] = []  # Client number, backend process id.
        self._clients = itertools.count(1)
        self._idle: list[_Backend] = []
        self._opened: list[asyncio.StreamWriter] = []
        self._changed = asyncio.Condition()
        self._parameters, self._closing = b"", False
        self._thread = LoopThread("postgres-pooler")
        try:
            self._port = self._thread.call(self._open(size))
        except OSError:
            self._thread.close(self._opened)
            raise

    async def _open(self, size: int) -> int:
        for _ in range(size):
            self._idle.append(await _connect(self._dsn, self._opened))
        self._parameters = self._idle[0].parameters
        self._listener = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return int(self._listener.sockets[0].getsockname()[1])

    def __enter__(self) -> TransactionPooler:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Reset every client, leave every server connection and stop listening."""
        if not self._closing:
            self._thread.call(self._shut())
        self._thread.close(self._opened)

    async def _shut(self) -> None:
        self._closing = True
        self._listener.close()

    def dsn(self) -> str:
        """Return the target's connection string led through the pooler."""
        through: dict[str, Any] = {"host": "127.0.0.1", "port": self._port, "sslmode": "disable"}
        return make_conninfo(self._dsn, gssencmode="disable", **through)

    @property
    def backend_pids(self) -> frozenset[int]:
        """The process ids of the server connections that have served a client so far."""
        return frozenset(pid for _, pid in self.assignments)

    async def acquire(self, client: int, last_pid: int | None) -> _Backend:
        """Take a free server connection, another than `last_pid` whenever there is one."""
        async with self._changed:
            await asyncio.wait_for(self._changed.wait_for(lambda: bool(self._idle)), WAIT_S)
            others = [backend for backend in self._idle if backend.pid != last_pid]
            backend = (others or self._idle)[0]
            self._idle.remove(backend)
        self.assignments.append((client, backend.pid))
        if last_pid is not None:
            self.switches += bool(others)
            self.repeats += not others
        return backend

    async def give_back(self, backend: _Backend) -> None:
        """Return a connection that is between transactions; the longest idle goes first."""
        async with self._changed:
            self._idle.append(backend)
            self._changed.notify_all()

    async def replace(self, backend: _Backend) -> None:
        """End a connection in the middle of a transaction and open a new one."""
        reset(backend.writer)
        if not self._closing:
            await self.give_back(await _connect(self._dsn, self._opened))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._thread.hold()
        session = _Session(self, next(self._clients), reader, writer)
        expected = (asyncio.IncompleteReadError, OSError, asyncio.TimeoutError)
        try:
            with contextlib.suppress(*expected, asyncio.CancelledError):
                await session.greet(self._parameters)
                await session.relay_requests()
        finally:
            reset(writer)
            with contextlib.suppress(*expected):
                await session.leave()


class _Session:
    """One client: attached to a server connection during a transaction, to none between."""

    def __init__(
        self,
        pooler: TransactionPooler,
        number: int,
        client: asyncio.StreamReader,
        client_writer: asyncio.StreamWriter,
    ) -> None:
        self._pooler, self._number = pooler, number
        self._client, self._client_writer = client, client_writer
        self._backend: _Backend | None = None
        self._last_pid: int | None = None
        self._answers: asyncio.Task[None] | None = None
        self._open_syncs, self._unsynced = 0, False

    async def greet(self, parameters: bytes) -> None:
        """Answer the startup packet as the server would, with the pool's own parameters."""
        startup = await read_startup(self._client, self._client_writer)
        if int.from_bytes(startup[4:8], "big") == CANCEL:
            raise ConnectionResetError("this pooler forwards no cancel request")
        key = _frame(b"K", struct.pack("!ii", self._number, 0))
        ready = _frame(b"Z", b"I")
        self._client_writer.write(_frame(b"R", bytes(4)) + parameters + key + ready)

    async def relay_requests(self) -> None:
        """Pass messages on, each transaction to a server connection of its own."""
        while (frame := await read_frame(self._client))[:1] != b"X":
            if self._backend is None:
                self._backend = await self._pooler.acquire(self._number, self._last_pid)
                self._last_pid = self._backend.pid
                self._answers = asyncio.create_task(self._relay_answers(self._backend))
            synced = frame[:1] in (b"Q", b"S", b"F")
            self._open_syncs += synced
            self._unsynced = not synced
            self._backend.writer.write(frame)
            await self._backend.writer.drain()

    async def _relay_answers(self, backend: _Backend) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, OSError):
            while True:
                frame = await read_frame(backend.reader)
                if frame[:1] == b"Z":
                    self._open_syncs -= 1
                    if frame[5:] == b"I" and not self._open_syncs and not self._unsynced:
                        # Free for others before the client knows: it may not get it back.
                        self._backend = None
                        await self._pooler.give_back(backend)
                        self._client_writer.write(frame)
                        return
                self._client_writer.write(frame)
                await self._client_writer.drain()
        self._client_writer.close()

    async def leave(self) -> None:
        """Forget the client; a transaction that it left open is rolled back by the server."""
        if self._answers is not None:
            self._answers.cancel()
        if self._backend is not None:
            await self._pooler.replace(self._backend)
