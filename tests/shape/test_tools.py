"""The set-up programs: what they refuse, what they repair, and what they leave alone.

They are tested here without a network; a clean clone is what tests their good path.
"""

from __future__ import annotations

import io
import json
import ssl
import tarfile
import zipfile
from pathlib import Path

import pytest

from tools import fetch_flights, setup_env


def test_set_up_refuses_a_folder_that_it_did_not_make(tmp_path: Path) -> None:
    precious = tmp_path / "precious.txt"
    precious.write_text("mine")
    with pytest.raises(setup_env.Refused):
        setup_env.refuse_foreign(tmp_path)
    assert precious.read_text() == "mine"


def test_set_up_accepts_an_absent_an_empty_and_a_half_made_folder(tmp_path: Path) -> None:
    setup_env.refuse_foreign(tmp_path / "absent")
    setup_env.refuse_foreign(tmp_path)
    # Killed between the lock's creation and the first stamp.
    (tmp_path / setup_env.LOCK).touch()
    (tmp_path / "bin").mkdir()
    setup_env.refuse_foreign(tmp_path)


def test_set_up_refuses_a_link_in_place_of_the_folder(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(setup_env.Refused):
        setup_env.refuse_foreign(link)


def test_emptying_keeps_the_marks_and_never_follows_links(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept.txt").touch()
    folder = tmp_path / "env"
    (folder / "lib" / "deep").mkdir(parents=True)
    (folder / "lib" / "deep" / "a.py").touch()
    (folder / "link").symlink_to(outside)
    (folder / setup_env.LOCK).touch()
    setup_env.write_stamp(folder, {"state": "building"})
    setup_env.empty(folder)
    assert sorted(entry.name for entry in folder.iterdir()) == [setup_env.STAMP, setup_env.LOCK]
    assert (outside / "kept.txt").exists()


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"\xff", b'{"lock": "1"'])
def test_a_torn_stamp_counts_as_none(tmp_path: Path, body: bytes) -> None:
    (tmp_path / setup_env.STAMP).write_bytes(body)
    assert setup_env.read_stamp(tmp_path) == {}


def test_an_old_interpreter_is_not_suitable(tmp_path: Path) -> None:
    assert not setup_env.is_suitable(str(tmp_path / "python3"))
    refuses = tmp_path / "python"
    refuses.write_text("#!/bin/sh\nexit 1\n")
    refuses.chmod(0o755)
    assert not setup_env.is_suitable(str(refuses))


# ---------------------------------------------------------------------------
# The download.

INDEX = fetch_flights.Index("https://index.example/simple/", None, ssl.create_default_context())


def archive_of(members: dict[str, bytes]) -> bytes:
    """Return a tar archive with some members."""
    body = io.BytesIO()
    with tarfile.open(fileobj=body, mode="w:gz") as tar:
        for name, content in members.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    return body.getvalue()


def data_archive(**others: bytes) -> bytes:
    """Return an archive laid out as the real one, with other members if wanted."""
    inner = io.BytesIO()
    with zipfile.ZipFile(inner, "w") as zipped:
        zipped.writestr(fetch_flights.FLIGHTS, "year\n2013\n2013\n")
    members = {fetch_flights.DATA_PREFIX + name: b"a\n" for name in fetch_flights.PLAIN_NAMES}
    members[fetch_flights.DATA_PREFIX + fetch_flights.FLIGHTS + ".zip"] = inner.getvalue()
    return archive_of({**members, **others})


def test_both_forms_of_an_index_page_give_the_same_links() -> None:
    as_json = json.dumps({"files": [{"url": "../a.tar.gz"}, {"url": "../b.whl"}]}).encode()
    as_html = b'<!DOCTYPE html><a href="../a.tar.gz">a</a><a>no address</a><a href="../b.whl">b</a>'
    expected = ["../a.tar.gz", "../b.whl"]
    assert fetch_flights.links_of(as_json, "application/vnd.pypi.simple.v1+json") == expected
    assert fetch_flights.links_of(as_html, "text/html") == expected


def test_a_broken_index_page_is_refused_in_words() -> None:
    with pytest.raises(fetch_flights.Refused):
        fetch_flights.links_of(b"{}", "application/vnd.pypi.simple.v1+json")


def test_an_archive_with_another_digest_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    page = f'<a href="/files/{fetch_flights.ARCHIVE}#sha256=0">x</a>'.encode()
    answers = iter([(page, "text/html"), (b"something else", "application/gzip")])
    asked = []

    def get(index: fetch_flights.Index, address: str, *rest: object) -> tuple[bytes, str]:
        asked.append(address)
        return next(answers)

    monkeypatch.setattr(fetch_flights, "get", get)
    with pytest.raises(fetch_flights.Refused, match="digest"):
        fetch_flights.download_archive(INDEX)
    assert asked == [
        f"https://index.example/simple/{fetch_flights.PROJECT}/",
        f"https://index.example/files/{fetch_flights.ARCHIVE}",
    ]


def test_an_index_cannot_point_at_local_files() -> None:
    with pytest.raises(fetch_flights.Refused, match="not HTTP"):
        fetch_flights.get(INDEX, "file:///data", 10, "A file", "*/*")


def test_a_longer_stream_than_allowed_is_not_read_to_its_end() -> None:
    assert fetch_flights.read_bounded(io.BytesIO(b"12345"), 5, "It") == b"12345"
    stream = io.BytesIO(b"1" * 100)
    with pytest.raises(fetch_flights.Refused, match="larger than 5 bytes"):
        fetch_flights.read_bounded(stream, 5, "It")
    assert stream.tell() == 6


def test_members_outside_the_list_are_never_written(tmp_path: Path) -> None:
    side = tmp_path / "side"
    side.mkdir()
    fetch_flights.unpack(data_archive(**{"../escaped.csv": b"x", "setup.py": b"x"}), side)
    names = [*fetch_flights.PLAIN_NAMES, fetch_flights.FLIGHTS]
    assert sorted(path.name for path in side.iterdir()) == sorted(names)
    assert [path.name for path in tmp_path.iterdir()] == ["side"]
    assert fetch_flights.count_rows(side / fetch_flights.FLIGHTS) == 2


def test_a_wrong_row_count_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetch_flights, "find_index", lambda: INDEX)
    monkeypatch.setattr(fetch_flights, "download_archive", lambda index: data_archive())
    with pytest.raises(fetch_flights.Refused, match="holds 2 rows"):
        fetch_flights.fetch(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["flights.lock"]


def test_a_damaged_folder_is_replaced_and_a_good_one_is_used_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    downloads = []

    def download(index: fetch_flights.Index) -> bytes:
        downloads.append(index)
        return data_archive()

    monkeypatch.setattr(fetch_flights, "find_index", lambda: INDEX)
    monkeypatch.setattr(fetch_flights, "download_archive", download)
    monkeypatch.setattr(fetch_flights, "FLIGHT_ROWS", 2)
    (tmp_path / "flights.tmp-remains").mkdir()
    folder = fetch_flights.fetch(tmp_path)
    assert fetch_flights.fetch(tmp_path) == folder
    assert len(downloads) == 1
    (folder / fetch_flights.FLIGHTS).write_text("torn")
    assert fetch_flights.fetch(tmp_path) == folder
    assert len(downloads) == 2
    assert sorted(path.name for path in tmp_path.iterdir()) == ["flights", "flights.lock"]
    assert not (folder / "replaced").exists()
    assert fetch_flights.count_rows(folder / fetch_flights.FLIGHTS) == 2
