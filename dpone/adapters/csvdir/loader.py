"""Appends a relation to a CSV file of a directory. The only strategy is `append`."""

from __future__ import annotations

import csv
import io

from dpone.adapters.csvdir.target import CsvdirTransaction
from dpone.contracts.errors_loading import ConnectorUnsupported, TableNameInvalid
from dpone.contracts.matching import chosen
from dpone.ports.loader import Load
from dpone.ports.source import Relation


class CsvdirLoader:
    """The port `Loader` for a directory of CSV files."""

    def load(
        self, transaction: CsvdirTransaction, load: Load, relation: Relation
    ) -> dict[str, int]:
        """Append the source's blocks as they are; the header goes first into a new file.

        Returns the bytes written, since nobody counts rows here. Raises `ConnectorUnsupported`.
        """
        if load.strategy != "append":
            raise ConnectorUnsupported(connector="csvdir", what=f"{load.strategy}, only append")
        table = load.table[-1]
        if len(load.table) > 1 or not table.replace("_", "").replace("-", "").isalnum():
            raise TableNameInvalid(table=table, reason="it is not a plain file name")
        names = chosen(load.columns, relation.columns)
        with relation.csv_stream(names, load.types) as stream:
            header = io.StringIO()
            csv.writer(header, delimiter=stream.delimiter, lineterminator="\n").writerow(
                stream.columns
            )
            written = transaction.append(table, stream.blocks, header.getvalue().encode())
        return {"bytes_written": written}
