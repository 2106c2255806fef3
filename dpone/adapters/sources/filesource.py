"""A source of files: its digests and its partitions.

Promise: a partition lists exactly the files in which its value occurs, so a file that arrives
later changes the intent of no other partition. Not promised: that a guessed column type stays the
same when files are added; declare `columns` for that.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dpone.adapters.sources import scan
from dpone.adapters.sources.csvtext import header_of
from dpone.adapters.sources.engine import Engine
from dpone.adapters.sources.files import Files
from dpone.adapters.sources.opening import Found, resolve
from dpone.adapters.sources.refusals import refusal_of
from dpone.adapters.sources.relation import FileRelation
from dpone.contracts.columns import neutral, quoted, spelled
from dpone.contracts.errors_loading import PartitionsTooMany, SourceColumnMissing
from dpone.contracts.identity import position_of
from dpone.contracts.matching import hinted
from dpone.contracts.route import Cut, RouteManifest
from dpone.ports.source import Partition

PARTITIONS_MAX = 10_000


class FileSource:
    """The port `Source` over CSV, Parquet or JSON Lines files below `root`."""

    def __init__(self, manifest: RouteManifest, root: Path) -> None:
        self._manifest = manifest
        self._spec = manifest.source
        self._root = root
        self._engine = Engine()
        self._files: Files | None = None

    def start(self) -> None:
        """Find the files and begin to digest them."""
        self._opened()

    def _opened(self) -> Files:
        if self._files is None:
            found = resolve(self._root, self._spec.pattern)
            self._files = Files(found, text=self._spec.kind != "parquet")
            self._files.start()
        return self._files

    def partitions(self) -> list[Partition]:
        """The parts, in the order of their values, missing last."""
        files = self._opened()
        cut = self._manifest.partition
        names = tuple(file.name for file in files.found)
        if cut == "none":
            return [Partition("none", "none", "all", "", names)]
        if cut == "file":
            found = [Partition("file", {"file": name}, name, name, (name,)) for name in names]
        else:
            assert isinstance(cut, Cut)
            try:
                found = self._by_column(files, cut)
            except Exception as error:
                files.check_text()
                raise refusal_of(error, self._spec.kind) from error
            files.check_text()
            # The values were read beside the digests; both must be of the same bytes.
            files.check_unchanged(names)
        if len(found) > PARTITIONS_MAX:
            raise PartitionsTooMany(found=len(found), most=PARTITIONS_MAX)
        return found

    def fingerprint(self, partition: Partition) -> Any:
        """Digest and size of every file that can reach the part."""
        if not self._csv and self._opened().digesting():
            self._engine.ready()
        return {
            "files": [
                {
                    "name": file.name,
                    "bytes": file.bytes,
                    "sha256" if file.pieces == 1 else "sha256_of_pieces": file.sha256,
                }
                for file in self._opened().digests(partition.files)
            ],
            "options": self._options(),
        }

    def _options(self) -> dict[str, Any]:
        spec = self._spec
        if spec.kind != "csv":
            return {}
        return {"delimiter": spec.delimiter, "quote": spec.quote, "null": list(spec.null)}

    def relation(self, partition: Partition) -> FileRelation:
        """The rows of one part."""
        return FileRelation(self._spec, self._opened(), partition, self._engine)

    def close(self) -> None:
        """Close the engine and let unfinished digests go."""
        if self._files is not None:
            self._files.close()
        self._engine.close()

    # -- discovery -----------------------------------------------------------------------------

    def _by_column(self, files: Files, cut: Cut) -> list[Partition]:
        column = self._manifest.cut_column
        by_path = {str(file.path): file.name for file in files.found}
        kind = self._type_of(files.found, column)
        typed = self._typed(files.found, column, spelled(kind, "duckdb"))
        if cut.interval is not None:
            value = f"date_trunc('{cut.interval.every}', {quoted(column)})::DATE"
            stop = f"(v + INTERVAL 1 {cut.interval.every})::DATE::VARCHAR"
        else:
            value, stop = quoted(column), "NULL"
        # The typed value orders the parts; its text names them.
        rows = self._engine.all(
            f"SELECT v::VARCHAR, {stop}, list(DISTINCT f ORDER BY f) FROM"
            f" (SELECT {value} AS v, f FROM ({typed})) GROUP BY v ORDER BY v NULLS LAST"
        )
        return [
            _part(cut, column, kind, text, stop, tuple(by_path[path] for path in paths))
            for text, stop, paths in rows
        ]

    def _typed(self, found: tuple[Found, ...], column: str, word: str) -> str:
        """A SELECT of the cut column, with one DuckDB type for all files, and the file's path."""
        types = {column: word}
        selection = f"SELECT CAST({quoted(column)} AS {word}) AS {quoted(column)}"
        selection += f", {quoted(scan.FILE_COLUMN)} AS f FROM "
        if not self._csv:
            paths = [file.path for file in found]
            return selection + scan.other_table(paths, types, self._spec.kind, named=True)
        tables: dict[tuple[str, ...], list[Path]] = {}
        for file in found:
            names = header_of(file, self._spec).names
            if column not in names:
                raise hinted(SourceColumnMissing(column=column), names)
            tables.setdefault(names, []).append(file.path)
        return " UNION ALL ".join(
            selection + scan.csv_table(paths, names, types, self._spec, named=True)
            for names, paths in tables.items()
        )

    @property
    def _csv(self) -> bool:
        return self._spec.kind == "csv"

    def _type_of(self, found: tuple[Found, ...], column: str) -> str:
        """The neutral type in which values of the cut column are compared."""
        cut = self._manifest.partition
        if isinstance(cut, Cut) and cut.interval is not None:
            return "timestamptz"
        if declared := self._manifest.types.get(column):
            return neutral(declared, column)
        paths = [file.path for file in found]
        if self._csv:
            table = scan.csv_guess(paths, self._spec)
        else:
            table = scan.other_table(paths, {}, self._spec.kind)
        types = self._engine.described(f"SELECT * FROM {table}")
        if column not in types:
            raise hinted(SourceColumnMissing(column=column), tuple(types))
        return neutral(types[column], column)


_ORDERED = ("smallint", "integer", "bigint", "text", "date", "timestamp", "timestamptz", "time")


def _position(text: str | None, kind: str) -> str:
    """The place of a value in an ordered route; empty where its text would not sort as it does.

    Such a value has no floor: it is never taken for one that expired.
    """
    if text is None or kind not in _ORDERED or text.startswith("-"):
        return ""
    return position_of(text)


def _part(
    cut: Cut,
    column: str,
    kind: str,
    text: str | None,
    stop: str | None,
    files: tuple[str, ...],
) -> Partition:
    if cut.interval is None:
        label = f"{column} is missing" if text is None else f"{column}={text}"
        identity: Any = {"column": column, "value": text}
        position = _position(text, kind)
        return Partition(
            "column", identity, label, position, files, column=column, value=text, type=kind
        )
    identity = {"interval": cut.interval.every, "column": column, "from": text, "to": stop}
    label = f"{column} is missing" if text is None else f"{column}={text}"
    return Partition(
        "interval",
        identity,
        label,
        text or "",
        files,
        column=column,
        type=kind,
        start=text or "",
        stop=stop or "",
    )
