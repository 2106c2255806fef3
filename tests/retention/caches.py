"""Throw-away caches: the one that an earlier release wrote, and ones that the command makes."""

from __future__ import annotations

import contextlib
import io
import json
import shutil
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from dpone import wiring
from dpone.cli.main import main
from dpone.contracts.canonical import digest
from dpone.ports.cachefiles import CacheFolder
from dpone.retention.authority import Authority, read_authority
from dpone.retention.cache import marked

EARLIER = Path(__file__).parent.parent / "golden" / "cache-0.88.tar.gz"
CURRENT = "sha256:91aaf1077fa1ee84fc9da33ddeeae1666d2e1694852b8cca2640d48b96a31777"
CANDIDATES = (
    "sha256:4e66b4c3a52f9d79063d7a470fe37a96d98d532ccb94c8693b5b59ccddbd3b50",
    "sha256:606894950716ceef7e7aaa301c7f6e8a9e62dc3afea645c4a43df923adc79f7e",
    "sha256:71eac4ec56bfd25e0e0c6d3a4b8d2870ad8ab73b4bf8a10b3e9fb99aae7891dc",
)


def number(value: int) -> str:
    """A digest that is easy to tell from others."""
    return f"sha256:{value:064x}"


class Said(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def report(self) -> Any:
        return json.loads(self.out)


def call(*arguments: str | Path) -> Said:
    """Run the command line in this process."""
    out, err = io.StringIO(), io.StringIO()
    code = 0
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main([str(argument) for argument in arguments])
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 0
    return Said(code, out.getvalue(), err.getvalue())


class Cache:
    """A cache with its loader's acknowledgement beside it."""

    def __init__(self, root: Path, ack: Path) -> None:
        self.root = root
        self.ack = ack

    def plan(self, *more: str | Path, environment: str = "dev") -> Said:
        where = ("--cache-root", self.root, "--environment", environment)
        return call("airflow", "cache-retention-plan", *where, *more, "--format", "json")

    def table(self, *more: str | Path) -> Said:
        return call("airflow", "cache-retention-plan", "--cache-root", self.root, *more)

    def materialize(self, *more: str | Path) -> Said:
        where = ("--cache-root", self.root, "--loader-ack-file", self.ack)
        return call("airflow", "cache-materialize", *where, *more, "--format", "json")

    def authority(self, *, environment: str = "dev") -> Authority:
        with self.opened() as root:
            return read_authority(root, environment, wiring.open_document(self.ack))

    @contextmanager
    def opened(self) -> Iterator[CacheFolder]:
        with marked(wiring.open_cache(self.root)) as root:
            yield root

    def deployment(self, deployment_id: str) -> Path:
        return self.root / "deployments" / "dev" / deployment_id.replace(":", "-")

    def activation(self, deployment_id: str) -> Path:
        return self.root / "activations" / "dev" / deployment_id.replace(":", "-")

    def edit(self, path: str, **changes: Any) -> None:
        """Change fields of a JSON file; a change to None takes the field away."""
        file = self.root / path
        value = json.loads(file.read_text()) | changes
        file.write_text(json.dumps({name: it for name, it in value.items() if it is not None}))

    def edit_ack(self, **changes: Any) -> None:
        self.ack.write_text(json.dumps(json.loads(self.ack.read_text()) | changes))

    def add(self, fixture: str) -> str:
        """Another deployment of the same release; returns its id."""
        source = self.deployment(CANDIDATES[0])
        body = json.loads((source / "deployment.json").read_text()) | {"fixture_identity": fixture}
        del body["deployment_id"]
        deployment_id = digest(body)
        index = json.loads((source / "airflow-index.json").read_text())
        made = self.deployment(deployment_id)
        made.mkdir()
        (made / "_SUCCESS").write_text("ok\n")
        (made / "deployment.json").write_text(json.dumps(body | {"deployment_id": deployment_id}))
        (made / "airflow-index.json").write_text(
            json.dumps(index | {"deployment_id": deployment_id})
        )
        return deployment_id

    def snapshot(self) -> dict[str, tuple[int, bytes]]:
        """Every name with its mode and bytes."""
        found = {}
        for path in sorted(self.root.rglob("*")):
            data = path.read_bytes() if path.is_file() and not path.is_symlink() else b""
            found[str(path.relative_to(self.root))] = (path.lstat().st_mode, data)
        return found


def earlier(folder: Path) -> Cache:
    """The cache of the earlier release: one current, three unreferenced."""
    with tarfile.open(EARLIER) as archive:
        archive.extractall(folder, filter="fully_trusted")
    return Cache(folder / "cache", folder / "loader-ack.json")


def removed(path: Path) -> None:
    """Remove a tree, sealed or not."""
    for below in [path, *path.rglob("*")]:
        if below.is_dir() and not below.is_symlink():
            below.chmod(0o755)
    shutil.rmtree(path)
