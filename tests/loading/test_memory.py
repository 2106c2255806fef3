"""A load that was given too little memory is tried again with more, and loads once."""

from __future__ import annotations

import pytest

from dpone.adapters.duckdb import loader
from dpone.adapters.sources import digests
from tests.loading.project import TARGETS, Project


def test_too_little_memory_is_mended_by_the_next_attempt(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loader, "_FLOOR_MB", 1)
    monkeypatch.setattr(loader, "_THREAD_MB", 1)
    monkeypatch.setattr(loader, "_CSV_BUFFER_MB", 6)
    rows = "".join(f"{number},{'x' * 400},2024-01-01,1\n" for number in range(60_000))
    project.write("items.csv", "id,grp,day,amount\n" + rows)
    project.route(target=TARGETS["duckdb"])
    said = project.run()
    assert said.hows == ["committed"], said.err
    assert said.report["operations"][0]["attempt"] == 2
    assert project.duckdb("SELECT count(*), count(DISTINCT id) FROM items") == [(60_000, 60_000)]


def test_a_binary_file_of_several_pieces_has_no_lines_to_be_too_long(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.duckdb(
        "COPY (SELECT i AS id, 'a' AS grp, DATE '2024-01-01' AS day, i / 3 AS amount"
        f" FROM range(50000) t(i)) TO '{project.root / 'items.parquet'}' (FORMAT parquet)"
    )
    monkeypatch.setattr(digests, "PIECE_BYTES", 4096)
    monkeypatch.setattr(digests, "LINE_BYTES_MAX", 1024)
    project.route(source="{parquet: items.parquet}")
    assert project.run().hows == ["committed"]
