"""Appending to CSV files in a directory. Promise: none beyond the guard's; capability NONE.

A crash leaves any number of the rows, the last of them perhaps torn, and nobody can ask the
directory which; that is why the guard exists.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from itertools import chain
from pathlib import Path
from typing import Any

from dpone.contracts.errors_fencing import TargetInvalid, TargetReadOnly
from dpone.contracts.fence import Capability
from dpone.ports.probe import Probe, quiet


class CsvdirTransaction:
    """What a change writes through. There is nothing transactional about it but the name."""

    def __init__(self, target: CsvdirTarget) -> None:
        self._target = target

    def append(self, table: str, blocks: Iterable[bytes], header: bytes = b"") -> int:
        """Append blocks of CSV to `<table>.csv`, with `header` first where there is no file.

        Returns the number of bytes; synced when the call returns.
        """
        return self._target.append(table, blocks, header)


class CsvdirTarget:
    """The guarded-target port on a directory."""

    name = "csvdir"
    capability = Capability.NONE
    store = ""

    def __init__(self, path: Path, *, probe: Probe = quiet) -> None:
        self.path = path
        self.probe = probe
        self.touched = False

    def mutate(self, change: Callable[[Any], Mapping[str, Any] | None]) -> Mapping[str, Any]:
        """Run the change."""
        self.touched = False
        return change(CsvdirTransaction(self)) or {}

    def append(self, table: str, blocks: Iterable[bytes], header: bytes) -> int:
        """Append to one file."""
        written = 0
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(
                self.path / f"{table}.csv",
                os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC,
                0o644,
            )
        except (FileExistsError, NotADirectoryError) as error:
            cause = "its path, or a part of it, is a file and not a folder"
            raise TargetInvalid(target=self.name, cause=cause) from error
        except IsADirectoryError as error:
            cause = f"{table}.csv in it is a folder and not a file"
            raise TargetInvalid(target=self.name, cause=cause) from error
        except OSError as error:
            raise TargetReadOnly(target=self.name, cause=error.strerror or "error") from error
        with os.fdopen(descriptor, "wb", buffering=1 << 20) as file:
            empty = os.fstat(descriptor).st_size == 0
            first = [header] if header and empty else []
            for block in chain(first, blocks):
                self.touched = True
                written += file.write(block)
            file.flush()
            os.fsync(descriptor)
        return written

    def close(self) -> None:
        """Nothing stays open between calls."""
