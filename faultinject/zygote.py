"""A clean process that forks workers, so that each kill costs milliseconds and hits a real process.

The zygote imports what workers need and opens nothing; each worker is forked from it, runs one
workload under a probe and dies or writes its result. Waiting happens in the zygote, which is the
parent; signals may be sent by anybody.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import signal
import subprocess
import sys
import traceback
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from dpone.ports.probe import quiet
from faultinject.probe import KillProbe, TraceProbe
from faultinject.syscalls import Traced, traced

WAIT_S = 60.0


@dataclass(frozen=True, slots=True)
class Ended:
    """How a worker ended or stopped: `signal` is 0 for an exit of its own.

    `result` is what the workload returned (or the error it raised), None when it never came to
    return. `proof` is the line that the probe wrote before it acted, None when it never did.
    """

    pid: int
    exit_code: int
    signal: int
    stopped: bool
    result: dict[str, Any] | None
    proof: dict[str, Any] | None

    @property
    def killed(self) -> bool:
        """Whether SIGKILL ended it."""
        return self.signal == signal.SIGKILL and not self.stopped

    def hit(self, point: str) -> bool:
        """Whether it acted at `point`, by its own proof: name, pid and signal agree."""
        return (
            bool(self.proof)
            and (self.proof or {}).get("point") == point
            and ((self.proof or {}).get("pid") == self.pid)
        )


@dataclass
class Zygote:
    """Starts workers. `folder` holds result and proof files and is the caller's."""

    folder: Path
    preload: tuple[str, ...] = ("faultinject.workloads",)
    _process: subprocess.Popen[str] | None = None
    _count: int = 0
    _files: dict[int, tuple[Path, Path]] = field(default_factory=dict)

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "faultinject.zygote", *self.preload],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).resolve().parent.parent,
        )
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(WAIT_S)
        assert self._process.stdout is not None
        self._process.stdout.close()

    def start(
        self,
        workload: str,
        args: Mapping[str, Any],
        *,
        point: str = "",
        action: str = "kill",
        trace: Path | None = None,
    ) -> int:
        """Fork a worker that runs `workload(args, probe)`; return its pid.

        `point` arms a kill or a stop there; `trace` records every point passed instead.
        """
        how = {"point": point, "action": action, "trace": str(trace or "")}
        return self._start(workload, args, how)

    def _start(self, workload: str, args: Mapping[str, Any], how: Mapping[str, Any]) -> int:
        self._count += 1
        result = self.folder / f"result-{self._count}.json"
        proof = self.folder / f"proof-{self._count}.jsonl"
        request = {"do": "start", "workload": workload, "args": dict(args), **how}
        pid = int(self._ask({**request, "result": str(result), "proof": str(proof)})["pid"])
        self._files[pid] = (result, proof)
        return pid

    def wait(self, pid: int) -> Ended:
        """Wait until the worker ends or stops."""
        answer = self._ask({"do": "wait", "pid": pid})
        result, proof = self._files[pid]
        return Ended(
            pid=pid,
            exit_code=answer["exit_code"],
            signal=answer["signal"],
            stopped=answer["stopped"],
            result=json.loads(result.read_text()) if result.exists() else None,
            proof=_last_line(proof),
        )

    def run(
        self,
        workload: str,
        args: Mapping[str, Any],
        *,
        point: str = "",
        action: str = "kill",
        trace: Path | None = None,
    ) -> Ended:
        """Start a worker and wait for it."""
        return self.wait(self.start(workload, args, point=point, action=action, trace=trace))

    def run_to_syscall(
        self, workload: str, args: Mapping[str, Any], folder: Path, stop_at: int
    ) -> Traced:
        """Run a worker and kill it at its `stop_at`-th stop around a file-changing system call
        below `folder`; 0 runs it to its end."""
        pid = self._start(workload, args, {"folder": str(folder), "stop_at": stop_at})
        ended = self.wait(pid)
        if ended.result is None:
            raise RuntimeError("the tracer died")
        return Traced(**{**ended.result, "stops": tuple(ended.result["stops"])})

    def _ask(self, request: dict[str, Any]) -> dict[str, Any]:
        assert self._process is not None
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError("the zygote died")
        answer: dict[str, Any] = json.loads(line)
        return answer


def wake(pid: int) -> None:
    """Let a stopped worker go on."""
    os.kill(pid, signal.SIGCONT)


def _last_line(path: Path) -> dict[str, Any] | None:
    if not path.exists():
        return None
    lines = path.read_text().splitlines()
    answer: dict[str, Any] | None = json.loads(lines[-1]) if lines else None
    return answer


def _serve() -> None:
    """The zygote's loop: one request, one answer; ends with its input."""
    for line in sys.stdin:
        request = json.loads(line)
        if request["do"] == "start":
            answer: dict[str, Any] = {"pid": _fork(request)}
        else:
            _, status = os.waitpid(request["pid"], os.WUNTRACED)
            stopped = os.WIFSTOPPED(status)
            answer = {
                "exit_code": os.WEXITSTATUS(status) if os.WIFEXITED(status) else -1,
                "signal": os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0,
                "stopped": stopped,
            }
        os.write(1, (json.dumps(answer) + "\n").encode())


def _fork(request: dict[str, Any]) -> int:
    pid = os.fork()
    if pid:
        return pid
    code = 70
    try:
        code = _work(request)
    except BaseException:  # noqa: BLE001 - whatever it was, the child must not go on as a zygote
        traceback.print_exc()
    finally:
        os._exit(code)


def _work(request: dict[str, Any]) -> int:
    # The worker must not answer on the zygote's pipe.
    os.dup2(2, 1)
    module, _, name = request["workload"].partition(":")
    workload = getattr(importlib.import_module(module), name)
    probe: Any = quiet
    if "stop_at" in request:
        seen = traced(
            lambda: int(workload(request["args"], quiet).get("exit_code", 0)),
            Path(request["folder"]),
            request["stop_at"],
        )
        Path(request["result"]).write_text(json.dumps(asdict(seen)))
        return 0
    if request["trace"]:
        probe = TraceProbe(Path(request["trace"]))
    elif request["point"]:
        probe = KillProbe(request["point"], Path(request["proof"]), request["action"])
    result = workload(request["args"], probe)
    Path(request["result"]).write_text(json.dumps(result))
    return int(result.get("exit_code", 0))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("modules", nargs="*")
    for preloaded in parser.parse_args().modules:
        importlib.import_module(preloaded)
    _serve()
