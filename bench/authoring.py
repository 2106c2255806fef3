"""One replace against a bare program that makes the same system calls; plans in a large project."""

from __future__ import annotations

import ctypes
import fcntl
import hashlib
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from bench.measure import Figure, p50_ms, turns
from dpone.adapters.posix.files import PosixFiles
from dpone.authoring.confined import ConfinedFiles

ROUNDS = 150
DOMAINS, WORKLOADS = 100, 100
SYNCS = 7
_LIBC = ctypes.CDLL(None, use_errno=True)
_SET_LEASE, _GET_LEASE, _SET_SIGNAL, _EXCHANGE = 1024, 1025, 10, 2
_NOFOLLOW, _EMPTY_PATH = 0x100, 0x1000
# What a look of ours asks for: the basics, the birth time and the mount.
_MASK = 0x7FF | 0x800 | 0x1000 | 0x4000
_BUFFER = ctypes.create_string_buffer(256)


def authoring_figures() -> Iterator[Figure]:
    with tempfile.TemporaryDirectory() as folder:
        yield from _replace_figures(Path(folder))
    yield from _plan_figures()


# -- one replace -----------------------------------------------------------------------------------


def _replace_figures(folder: Path) -> Iterator[Figure]:
    (folder / "ours").mkdir()
    (folder / "bare").mkdir()
    texts = [(f"a: {number}\n" * 200).encode() for number in range(ROUNDS + 1)]
    for name in ("ours", "bare"):
        (folder / name / "file.yaml").write_bytes(texts[0])
    confined = ConfinedFiles(PosixFiles(folder / "ours"))

    def ours(number: int) -> None:
        expected = hashlib.sha256(texts[number]).hexdigest()
        confined.replace_file_if_digest(
            "file.yaml", expected_sha256=expected, desired=texts[number + 1]
        )

    def bare(number: int) -> None:
        _bare_replace(folder / "bare", texts[number + 1])

    mine, others = turns(ours, bare, ROUNDS)
    assert (folder / "ours/file.yaml").read_bytes() == (folder / "bare/file.yaml").read_bytes()
    note = f"{p50_ms(mine):.2f} ms against {p50_ms(others):.2f} ms, medians of {ROUNDS} in turn"
    ratio = statistics.median(mine) / statistics.median(others)
    yield Figure("authoring: one replace, against bare system calls", ratio, 1.3, "x", note=note)
    yield Figure("authoring: syncs of one replace", _syncs(folder / "ours"), SYNCS, "syncs")


def _syncs(root: Path) -> float:
    """Counted at the port: every call that waits for the disk."""
    count = 0
    real, real_data = os.fsync, os.fdatasync

    def counted(descriptor: int) -> None:
        nonlocal count
        count += 1
        real(descriptor)

    def counted_data(descriptor: int) -> None:
        nonlocal count
        count += 1
        real_data(descriptor)

    os.fsync, os.fdatasync = counted, counted_data  # type: ignore[assignment]
    try:
        before = (root / "file.yaml").read_bytes()
        ConfinedFiles(PosixFiles(root)).replace_file_if_digest(
            "file.yaml",
            expected_sha256=hashlib.sha256(before).hexdigest(),
            desired=before + b"# counted\n",
        )
    finally:
        os.fsync, os.fdatasync = real, real_data
    return float(count)


def _bare_replace(root: Path, desired: bytes) -> None:
    """The same system calls in the same order, with nothing decided and nothing checked."""
    folder = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    os.fpathconf(folder, "PC_NAME_MAX")
    os.urandom(16)
    _looks(folder, b".draft")
    _stats(folder, ".journal", "file.yaml")
    held = _read(folder, "file.yaml")
    _looks(held, b"")
    _looks(folder, b"", b"file.yaml")
    os.access(".", os.W_OK | os.X_OK, dir_fd=folder, effective_ids=True)
    os.geteuid()
    os.fstatvfs(held)
    staged = _nameless(folder, held, desired)
    _looks(held, b"")
    os.urandom(16)
    _looks(staged, b"")
    _stats(folder, "/proc/self/fd")
    journal = os.open(".", os.O_TMPFILE | os.O_RDWR, 0o600, dir_fd=folder)
    fcntl.flock(journal, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.write(journal, b"x" * 546)
    os.fsync(journal)
    _link(journal, folder, ".journal")
    os.fsync(folder)
    _attributes(staged)
    _link(staged, folder, ".side")
    _LIBC.renameat2(folder, b"file.yaml", folder, b".side", _EXCHANGE)
    _looks(folder, b".side")
    os.fsync(folder)
    _attributes(held)
    for name in (".side", "file.yaml"):
        _stats(folder, name)
        os.close(_read(folder, name, looks=True))
    _stats(folder, ".side")
    _retire(folder, journal)
    os.unlink(".journal", dir_fd=folder)
    os.fsync(folder)
    _looks(folder, b".recovery")
    for descriptor in (journal, staged, held, folder):
        os.close(descriptor)


def _retire(folder: int, journal: int) -> None:
    old = os.open(".side", os.O_RDONLY | os.O_NOFOLLOW, dir_fd=folder)
    os.fstat(old)
    os.fstatvfs(old)
    fcntl.fcntl(old, _SET_SIGNAL, 23)
    fcntl.fcntl(old, _SET_LEASE, fcntl.F_RDLCK)
    _looks(old, b"")
    _twice(old)
    os.pwrite(journal, b"3", 9)
    os.fdatasync(journal)
    fcntl.fcntl(old, _GET_LEASE)
    _attributes(old)
    os.unlink(".side", dir_fd=folder)
    fcntl.fcntl(old, _GET_LEASE)
    os.close(old)
    os.fsync(folder)


def _stats(folder: int, *names: str) -> None:
    for name in names:
        with suppress(FileNotFoundError):
            os.stat(name, dir_fd=folder, follow_symlinks=False)


def _looks(folder: int, *names: bytes) -> None:
    for name in names:
        _LIBC.statx(folder, name, _NOFOLLOW if name else _EMPTY_PATH, _MASK, _BUFFER)


def _attributes(held: int) -> None:
    os.fstat(held)
    os.listxattr(held)


def _read(folder: int, name: str, *, looks: bool = False) -> int:
    held = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)
    os.fstat(held)
    if looks:
        _looks(held, b"")
    _twice(held)
    return held


def _twice(held: int) -> None:
    os.fstat(held)
    for _ in range(2):
        data = os.pread(held, 1 << 20, 0)
        os.pread(held, 1 << 20, len(data))
    os.fstat(held)


def _nameless(folder: int, like: int, data: bytes) -> int:
    _stats(folder, "/proc/self/fd")
    descriptor = os.open(".", os.O_TMPFILE | os.O_RDWR, 0o600, dir_fd=folder)
    os.write(descriptor, data)
    os.fstat(like)
    os.fstat(descriptor)
    os.fchmod(descriptor, 0o644)
    os.listxattr(like)
    os.listxattr(descriptor)
    os.fstat(descriptor)
    os.listxattr(like)
    os.listxattr(descriptor)
    os.fsync(descriptor)
    reading = os.open(f"/proc/self/fd/{descriptor}", os.O_RDONLY)
    os.close(descriptor)
    return reading


def _link(descriptor: int, folder: int, name: str) -> None:
    os.link(f"/proc/self/fd/{descriptor}", name, dst_dir_fd=folder, follow_symlinks=True)


# -- plans -----------------------------------------------------------------------------------------


def _plan_figures() -> Iterator[Figure]:
    with tempfile.TemporaryDirectory() as place:
        large, small = Path(place) / "large", Path(place) / "small"
        _project(large, DOMAINS)
        _project(small, 1)
        plan = [_command(large, f"d050/new{number}") for number in range(3)]
        seconds = statistics.median(wall for wall, _ in plan)
        peak = max(rss for _, rss in plan)
        name = f"authoring: plan of one workload among {DOMAINS} x {WORKLOADS}"
        yield Figure(name, seconds, 3.0, "s", note="the whole command")
        yield Figure(name + ", memory", peak, 300.0, "MB", note="peak, the whole command")
        pairs = [
            (
                _command(large, f"d000/more{number}", apply=True)[0],
                _command(small, f"d000/more{number}", apply=True)[0],
            )
            for number in range(7)
        ]
        ratio = statistics.median(mine / other for mine, other in pairs)
        note = f"{DOMAINS} domains against 1, medians of {len(pairs)} pairs"
        yield Figure("authoring: apply of one workload", ratio, 1.15, "x", note=note)


def _command(root: Path, name: str, *, apply: bool = False) -> tuple[float, float]:
    """Seconds and peak megabytes of one command."""
    words = [sys.executable, "-c", "from dpone.cli.main import main; main()"]
    words += ["init", "workload", name, "--root", str(root), *(["--apply"] if apply else [])]
    start = time.perf_counter()
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    return time.perf_counter() - start, used.ru_maxrss / 1024


def _project(root: Path, domains: int) -> None:
    command = [sys.executable, "-c", "from dpone.cli.main import main; main()", "init", "--apply"]
    root.mkdir()
    subprocess.run([*command, "--root", str(root)], check=True, stdout=subprocess.DEVNULL)
    for number in range(domains):
        domain = f"d{number:03}"
        lines = ["schema: dpone.domain-catalog.v1", f"domain: {domain}", "workloads:"]
        folder = root / "workloads" / domain
        folder.mkdir(parents=True)
        for other in range(WORKLOADS):
            path = f"workloads/{domain}/w{other:03}.yaml"
            lines += [f"  w{other:03}:", f"    manifest: {path}", "    owner: data_platform"]
            text = "schema: dpone.route.v1\nroute: r\nsource:\n  csv: a.csv\n"
            (root / path).write_text(text)
        catalog = root / "dpone_workloads/gitops/domains" / f"{domain}.yaml"
        catalog.parent.mkdir(parents=True, exist_ok=True)
        catalog.write_text("\n".join([*lines, "dags: {}", ""]))
