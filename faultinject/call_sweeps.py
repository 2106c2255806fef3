"""File-changing system calls of one command: all of them named, or the command killed at one.

Promise: a call counts by the file whose name or bytes it changes, relative names taken from their
directory's descriptor; a nameless file counts too. Linux on x86-64 only.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from dpone.ports.probe import Probe, quiet
from faultinject import syscalls, writing
from faultinject.syscalls import Traced

SWEPT = "faultinject.call_sweeps:swept"
_MORE = {
    265: ("linkat", "path3"),
    90: ("chmod", "path0"),
    91: ("fchmod", "fd0"),
    268: ("fchmodat", "path1"),
    92: ("chown", "path0"),
    93: ("fchown", "fd0"),
    260: ("fchownat", "path1"),
    188: ("setxattr", "path0"),
    190: ("fsetxattr", "fd0"),
    199: ("fremovexattr", "fd0"),
    133: ("mknod", "path0"),
    259: ("mknodat", "path1"),
    280: ("utimensat", "path1"),
}
_AT_CWD = -100
_DEVICES = ("/dev/null", "/dev/pts", "/dev/tty", "pipe:", "socket:")


class Calls(syscalls._Tracer):
    """Stops at calls below the folder; with the folder `/` at all but devices and `output`."""

    output = ""

    def _changing(self, tid: int) -> str:
        registers = (ctypes.c_ulong * syscalls._REGISTERS)()
        where = ctypes.addressof(registers)
        if not syscalls._ptrace(syscalls._GETREGS, tid, 0, where, gone_is_fine=True):
            return ""
        number = registers[syscalls._NUMBER]
        name, place = syscalls.CALLS[number]
        arguments = [registers[index] for index in syscalls._ARGUMENTS]
        if number in syscalls._CREATING:
            flags = arguments[syscalls._CREATING[number]]
            is_nameless = flags & os.O_TMPFILE == os.O_TMPFILE
            if not flags & os.O_CREAT and not is_nameless:
                return ""
            name = f"{name} nameless" if is_nameless else name
        path = self._path(tid, place, arguments)
        if self.folder == "/":
            is_ours = path.startswith("/") and path != self.output
            return f"{name} {path}" if is_ours and not path.startswith(_DEVICES) else ""
        is_below = path == self.folder or path.startswith(self.folder + "/")
        return f"{name} {os.path.relpath(path, self.folder)}" if is_below else ""

    def _path(self, tid: int, place: str, arguments: list[int]) -> str:
        index = int(place[-1])
        if place.startswith("fd"):
            return self._descriptor(arguments[index])
        text = self._text(tid, arguments[index])
        if index == 0:
            return text
        folder = ctypes.c_int(arguments[index - 1]).value
        if folder == _AT_CWD:
            return text
        given = os.path.relpath(text, Path(f"/proc/{self.pid}/cwd").readlink())
        return os.path.normpath(os.path.join(self._descriptor(folder), given))  # noqa: PTH118


def swept(args: Mapping[str, Any], probe: Probe) -> dict[str, Any]:
    """Run a writing command and kill it at stop `stop_at` (0: never) below `folder`."""
    del probe
    return asdict(_traced(args))


def _traced(args: Mapping[str, Any]) -> Traced:
    syscalls.require()
    syscalls.CALLS.update(_MORE)
    pid = os.fork()
    if pid == 0:
        code = 70
        with contextlib.suppress(BaseException):
            syscalls._ptrace(syscalls._TRACEME, 0, 0, 0)
            os.kill(os.getpid(), signal.SIGSTOP)
            syscalls._install_filter()
            code = int(writing.command(args, quiet).get("exit_code", 0))
        os._exit(code)
    tracer = Calls(pid, os.path.realpath(args["folder"]), args["stop_at"])
    tracer.output = os.path.realpath(args["out"])
    return tracer.run()
