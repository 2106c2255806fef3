"""The command line as an ordinary user, also when root runs the tests: root may write everywhere.

As a program it takes a user id and a folder, and lines of arguments on stdin; each line becomes
one call, and a line of JSON on stdout says how it ended.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import pwd
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from dpone.cli.main import main
from tests.loading.project import Said

ROOT = Path(__file__).resolve().parents[2]


class Ordinary:
    """A process that is not root; `call` runs the command line in it."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def call(self, *arguments: str) -> Said:
        """Run the command line in the folder."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(shlex.join(arguments) + "\n")
        self._process.stdin.flush()
        code, out, err = json.loads(self._process.stdout.readline())
        return Said(code, out, err)


@contextlib.contextmanager
def ordinary_folder() -> Iterator[Path]:
    """A folder that belongs to the ordinary user, below folders that anybody may pass."""
    with tempfile.TemporaryDirectory(prefix="dpone-ordinary-", dir="/tmp") as folder:
        if os.geteuid() == 0:
            os.chown(folder, uid(), -1)
        yield Path(folder)


@contextlib.contextmanager
def ordinary(folder: Path) -> Iterator[Ordinary]:
    """The process, until the block ends."""
    with subprocess.Popen(
        [sys.executable, "-m", "tests.cli.ordinary", str(uid()), str(folder)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), "HOME": str(folder)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        yield Ordinary(process)
        assert process.stdin is not None
        process.stdin.close()


def uid() -> int:
    """Our own user, or nobody when we are root."""
    return os.geteuid() or pwd.getpwnam("nobody").pw_uid


def run(arguments: list[str]) -> tuple[int, str, str]:
    """One call: exit code, stdout and stderr."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main(arguments)
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else 0
    return code, out.getvalue(), err.getvalue()


def warm_up(folder: Path) -> None:
    """Import what a load imports: the ordinary user may not be allowed to read the modules."""
    os.chdir(folder)
    Path("items.csv").write_text("id\n1\n")
    for kind in ("duckdb", "sqlite"):
        Path("warm.yaml").write_text(
            "schema: dpone.route.v1\nroute: warm\nsource: {csv: items.csv}\nstrategy: append\n"
            f"target: {{{kind}: warm.{kind}, table: items}}\n"
        )
        run(["run", "warm.yaml", "--format", "json"])
        run(["run", "absent.yaml", "--format", "json"])


def serve(user: int, folder: Path) -> None:
    with tempfile.TemporaryDirectory() as warm:
        warm_up(Path(warm))
        os.chdir(folder)
    if os.geteuid() == 0:
        os.setgroups([])
        os.setuid(user)
    for line in sys.stdin:
        sys.stdout.write(json.dumps(run(shlex.split(line))) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    serve(int(sys.argv[1]), Path(sys.argv[2]))
