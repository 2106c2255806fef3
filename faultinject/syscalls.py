"""Ends a worker just before or just after each of its file-changing system calls.

Promise: with `stop_at` k the worker and all its threads are killed at the k-th stop and the
answer names the call; when the k-th stop is never reached the worker ends by itself and the
answer says so. Only calls on files below one folder count. Not promised: machines other than
Linux on x86-64 (`require` says so), or changes through shared memory maps.

A seccomp filter makes the kernel stop at these calls alone, so tracing costs little.
"""

from __future__ import annotations

import ctypes
import os
import platform
import signal
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

# Where a call names its file: by descriptor or by path, and in which argument.
_FD0, _FD2, _PATH0, _PATH1 = "fd0", "fd2", "path0", "path1"
CALLS: dict[int, tuple[str, str]] = {
    1: ("write", _FD0),
    18: ("pwrite64", _FD0),
    20: ("writev", _FD0),
    296: ("pwritev", _FD0),
    328: ("pwritev2", _FD0),
    40: ("sendfile", _FD0),
    326: ("copy_file_range", _FD2),
    76: ("truncate", _PATH0),
    77: ("ftruncate", _FD0),
    74: ("fsync", _FD0),
    75: ("fdatasync", _FD0),
    277: ("sync_file_range", _FD0),
    285: ("fallocate", _FD0),
    82: ("rename", _PATH0),
    264: ("renameat", _PATH1),
    316: ("renameat2", _PATH1),
    84: ("rmdir", _PATH0),
    87: ("unlink", _PATH0),
    263: ("unlinkat", _PATH1),
    86: ("link", _PATH0),
    265: ("linkat", _PATH1),
    88: ("symlink", _PATH1),
    266: ("symlinkat", "path2"),
    83: ("mkdir", _PATH0),
    258: ("mkdirat", _PATH1),
    85: ("creat", _PATH0),
    2: ("open", _PATH0),
    257: ("openat", _PATH1),
    437: ("openat2", _PATH1),
}
_CREATING = {2: 1, 257: 2}  # Which argument holds the flags that must ask for creation.
_PATH_BYTES_MAX = 4096
_REGISTERS = 27
_ARGUMENTS = (14, 13, 12, 7, 9, 8)  # rdi, rsi, rdx, r10, r8, r9 in user_regs_struct.
_NUMBER = 15  # orig_rax

_CONT, _GETREGS, _SYSCALL = 7, 12, 24
_TRACEME, _SETOPTIONS, _GETEVENTMSG = 0, 0x4200, 0x4201
_SYSGOOD, _TRACECLONE, _TRACESECCOMP, _EXITKILL = 1, 8, 0x80, 0x100000
_EVENT_SECCOMP = 7
_WALL = 0x40000000
_PR_SET_NO_NEW_PRIVS, _PR_SET_SECCOMP, _FILTER_MODE = 38, 22, 2
_ALLOW, _TRACE = 0x7FFF0000, 0x7FF00000
_LOAD, _EQUAL, _RETURN = 0x20, 0x15, 0x06


class SyscallsUnsupported(RuntimeError):
    """This machine cannot stop at system calls the way this module does."""


def require() -> None:
    """Raise `SyscallsUnsupported` on anything but Linux on x86-64."""
    if platform.system() != "Linux" or platform.machine() != "x86_64":
        raise SyscallsUnsupported(
            "stopping at system calls is written for Linux on x86-64 only, not for"
            f" {platform.system()} on {platform.machine()}"
        )


@dataclass(frozen=True, slots=True)
class Traced:
    """How a traced worker ended.

    `stops` names every stop passed, such as `before fsync target-journal`; `killed_at` is the
    last of them when it was the wanted one and SIGKILL ended the worker there, else empty.
    """

    pid: int
    exit_code: int
    killed_at: str
    threads: int
    stops: tuple[str, ...]


def traced(work: Callable[[], int], folder: Path, stop_at: int) -> Traced:
    """Fork, run `work` in the child and kill it at stop number `stop_at` (from 1; 0: never).

    Must be called by a process that has no other children: it waits for all of them.
    """
    require()
    pid = os.fork()
    if pid == 0:
        code = 70
        try:
            _ptrace(_TRACEME, 0, 0, 0)
            os.kill(os.getpid(), signal.SIGSTOP)
            _install_filter()
            code = work()
        finally:
            os._exit(code)
    return _Tracer(pid, os.path.realpath(folder), stop_at).run()


class _Tracer:
    """Follows one process and its threads from stop to stop."""

    def __init__(self, pid: int, folder: str, stop_at: int) -> None:
        self.pid = pid
        self.folder = folder
        self.stop_at = stop_at
        self.stops: list[str] = []
        self.inside: dict[int, str] = {}
        self.known: set[int] = {pid}
        self.killed_at = ""

    def run(self) -> Traced:
        os.waitpid(self.pid, 0)
        options = _SYSGOOD | _TRACECLONE | _TRACESECCOMP | _EXITKILL
        _ptrace(_SETOPTIONS, self.pid, 0, options)
        _ptrace(_CONT, self.pid, 0, 0)
        while True:
            tid, status = os.waitpid(-1, _WALL)
            if os.WIFSTOPPED(status):
                self._stopped(tid, status)
            elif tid == self.pid:
                return self._ended(status)

    def _ended(self, status: int) -> Traced:
        by_kill = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
        return Traced(
            pid=self.pid,
            exit_code=os.WEXITSTATUS(status) if os.WIFEXITED(status) else -1,
            killed_at=self.killed_at if by_kill else "",
            threads=len(self.known),
            stops=tuple(self.stops),
        )

    def _stopped(self, tid: int, status: int) -> None:
        sent = os.WSTOPSIG(status)
        event = status >> 16
        request, deliver = _CONT, 0
        if event == _EVENT_SECCOMP:
            what = self._changing(tid)
            if what:
                self.inside[tid] = what
                self._passing("before " + what)
                request = _SYSCALL
        elif sent == signal.SIGTRAP | 0x80 and tid in self.inside:
            self._passing("after " + self.inside.pop(tid))
        elif event == 0 and sent not in (signal.SIGTRAP, signal.SIGTRAP | 0x80):
            # A new thread reports itself by a stop that is not meant for it.
            deliver = 0 if sent == signal.SIGSTOP and tid not in self.known else sent
        self.known.add(tid)
        if not self.killed_at:
            _ptrace(request, tid, 0, deliver, gone_is_fine=True)

    def _passing(self, stop: str) -> None:
        if self.killed_at:
            return
        self.stops.append(stop)
        if len(self.stops) == self.stop_at:
            self.killed_at = stop
            os.kill(self.pid, signal.SIGKILL)

    def _changing(self, tid: int) -> str:
        """What the call that `tid` is about to make would change, or '' for nothing of ours."""
        registers = (ctypes.c_ulong * _REGISTERS)()
        if not _ptrace(_GETREGS, tid, 0, ctypes.addressof(registers), gone_is_fine=True):
            return ""
        number = registers[_NUMBER]
        name, where = CALLS[number]
        if number in _CREATING and not registers[_ARGUMENTS[_CREATING[number]]] & os.O_CREAT:
            return ""
        value = registers[_ARGUMENTS[int(where[-1])]]
        path = self._descriptor(value) if where.startswith("fd") else self._text(tid, value)
        if not path.startswith(self.folder + "/") and path != self.folder:
            return ""
        return f"{name} {os.path.relpath(path, self.folder)}"

    def _descriptor(self, number: int) -> str:
        try:
            return str(Path(f"/proc/{self.pid}/fd/{number}").readlink()).removesuffix(" (deleted)")
        except OSError:
            return ""

    def _text(self, tid: int, address: int) -> str:
        with open(f"/proc/{tid}/mem", "rb", buffering=0) as memory:
            memory.seek(address)
            data = b""
            while b"\0" not in data and len(data) < _PATH_BYTES_MAX:
                # A page at a time: the next one may not be there.
                part = memory.read(4096 - (address + len(data)) % 4096)
                if not part:
                    break
                data += part
        path = os.fsdecode(data.partition(b"\0")[0])
        cwd = Path(f"/proc/{self.pid}/cwd").readlink()
        return os.path.normpath(os.path.join(cwd, path))  # noqa: PTH118 - a peer's path


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _ptrace(request: int, pid: int, address: int, data: int, *, gone_is_fine: bool = False) -> bool:
    """Call ptrace; whether it worked. Raises `OSError` unless a vanished process is fine."""
    call = _libc().ptrace
    call.restype = ctypes.c_long
    call.argtypes = (ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p)
    if call(request, pid, address, data) >= 0:
        return True
    number = ctypes.get_errno()
    if gone_is_fine and number == 3:  # ESRCH
        return False
    raise OSError(number, f"ptrace request {request}: {os.strerror(number)}")


def _install_filter() -> None:
    """Let the kernel report the calls of `CALLS` to the tracer, and no other."""
    program = [struct.pack("=HBBI", _LOAD, 0, 0, 0)]  # The call's number.
    numbers = sorted(CALLS)
    for index, number in enumerate(numbers):
        # On a match jump over the rest of the tests and the "allow" behind them.
        program.append(struct.pack("=HBBI", _EQUAL, len(numbers) - index, 0, number))
    program.append(struct.pack("=HBBI", _RETURN, 0, 0, _ALLOW))
    program.append(struct.pack("=HBBI", _RETURN, 0, 0, _TRACE))
    code = ctypes.create_string_buffer(b"".join(program))
    head = struct.pack("=HxxxxxxQ", len(program), ctypes.addressof(code))
    header = ctypes.create_string_buffer(head)
    libc = _libc()
    if libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) or libc.prctl(
        _PR_SET_SECCOMP, _FILTER_MODE, ctypes.byref(header), 0, 0
    ):
        number = ctypes.get_errno()
        raise OSError(number, f"the system call filter was refused: {os.strerror(number)}")
