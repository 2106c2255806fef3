"""A SQL query as a source: its rows are spooled once, and read from the spool like a file.

Promise: the query runs once for a command, on a connection that cannot write. The fingerprint is
its text and declared watermark. Not promised: that rows which changed under the same text and
watermark are noticed.
"""

from __future__ import annotations

import tempfile
import uuid
from pathlib import Path
from typing import Any

from dpone.adapters.sources.engine import Engine
from dpone.adapters.sources.filesource import FileSource
from dpone.adapters.sources.relation import FileRelation
from dpone.contracts.codec import replaced
from dpone.contracts.columns import literal
from dpone.contracts.errors import DponeError
from dpone.contracts.errors_loading import SourceQuery
from dpone.contracts.route import Query, RouteManifest, SourceSpec
from dpone.ports.source import Partition, Spool


class QuerySource:
    """The port `Source` over one query; the spool goes when the source is closed.

    `spool` writes the rows as CSV; without one the query runs on the DuckDB file `database`,
    whose rows are spooled as Parquet and keep their types.
    """

    def __init__(self, manifest: RouteManifest, database: Path, spool: Spool | None) -> None:
        assert manifest.source.query is not None
        self._query: Query = manifest.source.query
        self._database = database
        self._spool = spool
        self._name = "rows.parquet" if spool is None else "rows.csv"
        # No value is this text, so a missing value is told from every text.
        self._null = f"null-{uuid.uuid4().hex}"
        spooled = (
            SourceSpec(parquet=self._name)
            if spool is None
            else SourceSpec(csv=self._name, null=(self._null,))
        )
        self._manifest = replaced(manifest, source=spooled)
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._files: FileSource | None = None

    def _spooled(self) -> FileSource:
        if self._files is None:
            self._folder = tempfile.TemporaryDirectory(prefix="dpone-")
            path = Path(self._folder.name) / self._name
            if self._spool is None:
                self._write_parquet(path)
            else:
                self._spool(self._query.sql, path, self._null)
            self._files = FileSource(self._manifest, path.parent)
        return self._files

    def _write_parquet(self, path: Path) -> None:
        engine = Engine()
        try:
            connection = engine.connection
            connection.execute(
                f"ATTACH {literal(str(self._database))} AS source (READ_ONLY); USE source"
            )
            statements = connection.extract_statements(self._query.sql)
            if len(statements) != 1 or statements[0].type.name != "SELECT":
                raise self._refused("it is not one SELECT")
            text = self._query.sql.strip().rstrip(";")
            connection.execute(f"COPY ({text}\n) TO {literal(str(path))} (FORMAT parquet)")
        except DponeError:
            raise
        except Exception as error:
            # The engine's own words may quote rows and paths; their first part names the kind.
            raise self._refused(str(error).split(":", 1)[0].splitlines()[0]) from error
        finally:
            engine.close()

    def _refused(self, reason: str) -> SourceQuery:
        return SourceQuery(connection=self._query.connection, reason=reason)

    def start(self) -> None:
        """Nothing: the query runs when its rows are needed."""

    def partitions(self) -> list[Partition]:
        """The parts of the query's rows."""
        if self._manifest.partition == "none":
            return [Partition("none", "none", "all", "", ())]
        return [part._replace(files=()) for part in self._spooled().partitions()]

    def fingerprint(self, partition: Partition) -> Any:
        """The query's text and watermark; never rows of a one-shot stream."""
        return {"sql": self._query.sql, "watermark": self._query.watermark}

    def relation(self, partition: Partition) -> FileRelation:
        """The rows of one part, from the spool."""
        source = self._spooled()
        whole = partition._replace(files=(self._name,))
        source.fingerprint(whole)
        return source.relation(whole)

    def close(self) -> None:
        """Remove the spool."""
        if self._files is not None:
            self._files.close()
            self._files = None
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None
