"""What a relation hands to an engine: rows and streams of CSV, value for value."""

from __future__ import annotations

import csv
import hashlib
import io
from pathlib import Path

import duckdb
import pytest

from dpone.adapters.sources.files import Files
from dpone.adapters.sources.filesource import FileSource
from dpone.adapters.sources.opening import Found
from dpone.contracts.errors_loading import SourceFieldTooLarge, SourceNul, SourceRagged
from dpone.loading.manifest import manifest_of
from dpone.ports.source import CsvStream, Relation

TEXTS = [("1", "plain"), ("2", ""), ("3", None), ("4", 'a "b",\nc'), ("5", "NA"), ("6", "größe")]


def source_of(root: Path, source: dict[str, object], partition: object = "none") -> FileSource:
    """A source below `root`."""
    value = {
        "schema": "dpone.route.v1",
        "route": "r",
        "source": source,
        "target": {"duckdb": "w", "table": "t"},
        "strategy": "append",
        "partition": partition,
    }
    return FileSource(manifest_of(value, {}, "route.yaml"), root)


def relation_of(source: FileSource) -> Relation:
    """The first part of a source, digested."""
    part = source.partitions()[0]
    source.fingerprint(part)
    return source.relation(part)


def parsed(stream: CsvStream) -> list[tuple[str | None, ...]]:
    """The stream as PostgreSQL's COPY reads it: only an unquoted `null` is missing."""
    raw = b"".join(stream.blocks)
    with duckdb.connect() as connection:
        table = io.BytesIO(raw)
        path = Path.cwd() / "stream.csv"
        path.write_bytes(table.getvalue())
        names = dict.fromkeys(stream.columns, "VARCHAR")
        rows = connection.execute(
            f"SELECT * FROM read_csv('{path}', auto_detect=false, header=false, columns={names},"
            f" delim='{stream.delimiter}', quote='{stream.quote}', escape='{stream.quote}',"
            f" nullstr='{stream.null}', allow_quoted_nulls={stream.quoted_nulls})"
        ).fetchall()
    return rows


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_plain_csv_is_passed_on_as_it_is(folder: Path) -> None:
    body = b"id,name\r\n1,a\r\n2,\r\n3,last"
    (folder / "x.csv").write_bytes(b"\xef\xbb\xbf" + body)
    relation = relation_of(source_of(folder, {"csv": "x.csv"}))
    with relation.csv_stream(("name", "id"), {}) as stream:
        assert stream.columns == ("id", "name")
        assert b"".join(stream.blocks) == b"1,a\r\n2,\r\n3,last\n"
        assert (stream.null, stream.quoted_nulls) == ("", True)


def test_an_empty_file_is_an_empty_stream(folder: Path) -> None:
    (folder / "x.csv").write_bytes(b"id,name\n")
    relation = relation_of(source_of(folder, {"csv": "x.csv"}))
    with relation.csv_stream(("id", "name"), {}) as stream:
        assert b"".join(stream.blocks) == b""


def test_the_engine_tells_an_empty_text_from_a_missing_one(folder: Path) -> None:
    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE t (id VARCHAR, name VARCHAR)")
        connection.executemany("INSERT INTO t VALUES (?, ?)", TEXTS)
        connection.execute("COPY t TO 'x.parquet' (FORMAT parquet)")
    relation = relation_of(source_of(folder, {"parquet": "x.parquet"}))
    with relation.csv_stream(("id", "name"), {"id": "text", "name": "text"}) as stream:
        assert (stream.null, stream.quoted_nulls) == ("", False)
        assert sorted(parsed(stream), key=str) == sorted(TEXTS, key=str)


def test_several_texts_for_missing_are_resolved_by_the_engine(folder: Path) -> None:
    (folder / "x.csv").write_text("id,name\n1,NA\n2,-\n3,x\n")
    relation = relation_of(source_of(folder, {"csv": "x.csv", "null": ["NA", "-"]}))
    with relation.csv_stream(("id", "name"), {"id": "bigint", "name": "text"}) as stream:
        assert sorted(parsed(stream)) == [("1", None), ("2", None), ("3", "x")]


def test_a_large_stream_passes_the_pipe_in_blocks(folder: Path) -> None:
    with (folder / "x.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "part"])
        writer.writerows((number, number % 2) for number in range(200_000))
    source = source_of(folder, {"csv": "x.csv"}, {"column": "part"})
    relation = relation_of(source)
    with relation.csv_stream(("id",), {"id": "bigint"}) as stream:
        blocks = list(stream.blocks)
    assert len(blocks) > 1
    numbers = {int(line.strip(b'"')) for line in b"".join(blocks).splitlines()}
    assert numbers == set(range(0, 200_000, 2))


def test_an_error_of_the_engine_ends_the_stream_loudly(folder: Path) -> None:
    rows = "".join(f"{number},0\n" for number in range(50_000))
    (folder / "x.csv").write_text("id,part\n" + rows + "7\n" + rows)
    source = source_of(folder, {"csv": "x.csv", "null": ["NA", "-"]})
    relation = relation_of(source)
    with (
        pytest.raises(SourceRagged),
        relation.csv_stream(("id", "part"), {}) as stream,
    ):
        list(stream.blocks)


def test_a_reader_may_stop_early(folder: Path) -> None:
    (folder / "x.csv").write_text("id,part\n" + "1,2\n" * 400_000)
    relation = relation_of(source_of(folder, {"csv": "x.csv", "null": ["NA", "-"]}))
    with relation.csv_stream(("id", "part"), {}) as stream:
        assert next(stream.blocks)


def test_a_long_last_line_is_found_before_the_engine_drops_it(folder: Path) -> None:
    (folder / "x.csv").write_bytes(b"id,name\n1," + b"x" * (18 << 20))
    source = source_of(folder, {"csv": "x.csv"})
    with pytest.raises(SourceFieldTooLarge):
        relation_of(source)
    source.close()


def test_the_offset_of_a_nul_is_told(folder: Path) -> None:
    (folder / "x.csv").write_bytes(b"id,name\n" + b"1,a\n" * 600_000 + b"2,\0\n")
    source = source_of(folder, {"csv": "x.csv"})
    with pytest.raises(SourceNul) as caught:
        relation_of(source)
    assert caught.value.fields["offset"] == 8 + 4 * 600_000 + 2
    source.close()


def test_values_without_a_plain_type_become_text(folder: Path) -> None:
    with duckdb.connect() as connection:
        connection.execute(
            "COPY (SELECT '\\xAAbc'::BLOB AS b, [1, 2] AS l, {'k': 'v'} AS s, 1.50::DECIMAL(9,2)"
            " AS d, TIMESTAMPTZ '2024-01-01 12:00:00+02' AS t, DATE '2024-01-01' AS day, true AS f)"
            " TO 'x.parquet' (FORMAT parquet)"
        )
    relation = relation_of(source_of(folder, {"parquet": "x.parquet"}))
    names = relation.columns
    assert names == ("b", "l", "s", "d", "t", "day", "f")
    texts = ("[1,2]", '{"k":"v"}', "1.50", "2024-01-01 10:00:00+00:00", "2024-01-01")
    with relation.csv_stream(names, {}) as stream:
        assert parsed(stream) == [("\\xaa6263", *texts, "true")]
    with relation.rows(names, {}) as rows:
        assert list(rows.rows) == [(b"\xaabc", *texts, True)]
    assert relation.inferred() == {
        "b": "binary", "l": "json", "s": "json", "d": "decimal(9,2)", "t": "timestamptz",
        "day": "date", "f": "boolean",
    }  # fmt: skip


@pytest.mark.parametrize("piece", [7, 64, 1 << 20])
def test_a_digest_in_pieces_is_the_same_for_every_number_of_threads(
    folder: Path, monkeypatch: pytest.MonkeyPatch, piece: int
) -> None:
    body = b"id,name\n" + b"".join(b"%d,abc\n" % number for number in range(100))
    (folder / "x.csv").write_bytes(body)
    monkeypatch.setattr("dpone.adapters.sources.digests.PIECE_BYTES", piece)
    parts = [body[at : at + piece] for at in range(0, len(body), piece)]
    expected = hashlib.sha256(body).hexdigest()
    if len(parts) > 1:
        joined = b"".join(hashlib.sha256(part).digest() for part in parts)
        expected = hashlib.sha256(joined).hexdigest()
    for threads in (1, 4):
        monkeypatch.setattr("dpone.adapters.sources.files.THREADS_MAX", threads)
        source = source_of(folder, {"csv": "x.csv"})
        files = source.fingerprint(source.partitions()[0])["files"]
        source.close()
        key = "sha256" if len(parts) == 1 else "sha256_of_pieces"
        assert files == [{"name": "x.csv", "bytes": len(body), key: expected}]


@pytest.mark.parametrize("piece", [5, 8, 1 << 20])
@pytest.mark.parametrize(
    ("body", "fits"),
    [
        (b"aaaaaaaaaa\nbbbbbbbbbb\ncccccccccc", True),
        (b"aaaaaaaaaa\nbbbbbbbbbbb\ncccccccccc\n", False),
        (b"aaaaaaaaaa\nbbbbbbbbbb\nccccccccccc", False),
        (b"aaaaaaaaaa\rbbbbbbbbbb\rcccccccccc", True),
        (b"\n\n\n\n\n\n\n\n\n\n\n\n", True),
    ],
)
def test_a_line_is_measured_across_pieces(
    folder: Path, monkeypatch: pytest.MonkeyPatch, piece: int, body: bytes, fits: bool
) -> None:
    (folder / "x.csv").write_bytes(body)
    monkeypatch.setattr("dpone.adapters.sources.digests.PIECE_BYTES", piece)
    monkeypatch.setattr("dpone.adapters.sources.digests.LINE_BYTES_MAX", 10)
    files = Files([Found("x.csv", folder / "x.csv")], text=True)
    try:
        if fits or piece > 100:
            # Inside one block only the last line is measured: the engine measures the others.
            fits = fits or not body.endswith(b"ccccccccccc")
        if fits:
            files.check_text()
        else:
            with pytest.raises(SourceFieldTooLarge):
                files.check_text()
    finally:
        files.close()
