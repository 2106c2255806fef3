"""What the cache commands share: their options, and the open cache."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from dpone.ports.cachefiles import CacheFiles, CacheFolder
    from dpone.retention.cache import Document

FIXTURE_CHARS_MAX = 100
CACHE_ROOT = ".dpone-cache"
CacheRootOption = Annotated[str, typer.Option("--cache-root", help="The cache's directory.")]
EnvironmentOption = Annotated[
    str, typer.Option("--environment", help="The environment whose deployments are meant.")
]
ProtectOption = Annotated[
    list[str] | None,
    typer.Option("--protect-deployment-id", help="Never delete this deployment; repeatable."),
]
EvidenceOption = Annotated[
    list[Path] | None,
    typer.Option("--evidence-file", help="Never delete what this JSON file names; repeatable."),
]


def cache_of(root: str, *, create: bool = False) -> CacheFiles:
    """The cache's files. Raises `CacheRootUnsafe`, `CacheRootMissing`."""
    from dpone import wiring
    from dpone.contracts.errors_cache import CacheRootUnsafe

    if not root.strip():
        raise CacheRootUnsafe(reason="it is empty or the working directory")
    return wiring.open_cache(Path(root), create=create)


@contextmanager
def opened(root: str, environment: str) -> Iterator[tuple[CacheFiles, CacheFolder]]:
    """The cache's files and its open, marked root."""
    from dpone.retention.cache import marked

    check_environment(environment)
    files = cache_of(root)
    with marked(files) as folder:
        yield files, folder


def documents(paths: Iterable[Path] | None) -> tuple[Document, ...]:
    """The files that options name."""
    from dpone import wiring

    return tuple(wiring.open_document(path) for path in paths or ())


def check_environment(environment: str) -> None:
    """Raises `OptionInvalid` for a text that is no directory of an environment."""
    from dpone.contracts.cache_layout import is_environment
    from dpone.contracts.errors_project import OptionInvalid

    if not is_environment(environment):
        raise OptionInvalid(option="--environment", reason="it is no environment's name")


def check_preview(dag_ids: Iterable[str], fixture: str) -> None:
    """Raises `OptionInvalid` for DAGs and words of which no file could be made."""
    from dpone.contracts.cache_layout import is_dag
    from dpone.contracts.errors_project import OptionInvalid

    for dag_id in dag_ids:
        if not is_dag(dag_id):
            raise OptionInvalid(option="--dag", reason="letters, digits and _.- make a DAG's id")
    if not fixture.isascii() or not fixture.isprintable() or len(fixture) > FIXTURE_CHARS_MAX:
        reason = f"it is one printable word of at most {FIXTURE_CHARS_MAX} letters"
        raise OptionInvalid(option="--fixture", reason=reason)
