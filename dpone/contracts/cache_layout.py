"""The layout of a deployment cache: its names, its marker, and how its files are written.

Promise: a name stands for at most one digest and the other way round; file names that are no UTF-8
have a lossless text; a durable file reads back only when its bytes hold one value, without
duplicate keys. Paths are relative to the cache's root. Source: ADR 0043.
"""

from __future__ import annotations

import hashlib
import re
from datetime import datetime
from itertools import pairwise
from typing import Annotated, Any, Literal, NoReturn, TypeVar

import msgspec

from dpone.contracts.codec import convert, parse, plain

T = TypeVar("T")

MARKER = ".dpone-cache-layout.json"
PROMOTION_LOCK = ".promotion.lock"
RECONCILE_LOCK = ".reconcile.lock"
DEPLOYMENTS = "deployments"
ACTIVATIONS = "activations"
RELEASES = "releases"
CURRENT = "current"
POINTER = "current-pointer.json"
AUDIT = "current-pointer-audit.jsonl"
STATUS = "status"
CHECKPOINT = "desired-state-checkpoint.json"
HISTORY = ".retention-activation-history.v2.json"
EARLIER_HISTORY = ".retention-activation-history.json"
RECEIPTS = ".retention-apply-receipts"
WAL = ".retention-recovery.json"
LOG = ".retention-recovery.log"
ACKNOWLEDGEMENT = ".retention-recovery-ack.json"
TRASH = ".retention-trash"
# The layout before this one; a cache that holds either of them is not ours to clean.
EARLIER_LAYOUT = ("generations", "current_generation")

DEPLOYMENT_FILE = "deployment.json"
INDEX_FILE = "airflow-index.json"
RELEASE_FILE = "release-set.json"
SUCCESS = "_SUCCESS"

MARKER_BYTES_MAX = 4096
ENTRIES_MAX = 10_000
PATH_CHARS_MAX = 4096

_HEX = "0123456789abcdef"
_FOLDER = re.compile(r"sha256-([0-9a-f]{64})")
_ENVIRONMENT = re.compile(r"[a-z0-9](?:[a-z0-9._-]{0,62}[a-z0-9])?")
# Where `$` would let a last line feed pass, in some dialects of patterns and not in others.
END = r"(?![\s\S])"
_UUID4 = "[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"
_MOMENT = r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)"

Digest = Annotated[str, msgspec.Meta(pattern="^sha256:[0-9a-f]{64}" + END, max_length=71)]
Uuid4 = Annotated[str, msgspec.Meta(pattern=f"^{_UUID4}{END}", max_length=36)]
Moment = Annotated[
    str,
    msgspec.Meta(
        pattern=f"^{_MOMENT}{END}", max_length=64, extra_json_schema={"format": "date-time"}
    ),
]
Environment = Annotated[str, msgspec.Meta(min_length=1, max_length=128)]
Path = Annotated[str, msgspec.Meta(min_length=1, max_length=PATH_CHARS_MAX)]


class LayoutMarker(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The file that says whose directory this is."""

    schema: Literal["dpone.airflow-cache-layout.v1"] = "dpone.airflow-cache-layout.v1"
    layout: Literal["exact_deployment_v1"] = "exact_deployment_v1"
    version: Literal["1"] = "1"


def is_digest(text: Any) -> bool:
    """Whether `text` is `sha256:` and 64 lower-case hexadecimal digits."""
    return (
        isinstance(text, str)
        and len(text) == 71
        and text.startswith("sha256:")
        and not text[7:].strip(_HEX)
    )


def is_uuid4(text: Any) -> bool:
    """Whether `text` is a UUID of version 4 in its canonical lower-case form."""
    return isinstance(text, str) and re.fullmatch(_UUID4, text) is not None


def folder_name(digest: str) -> str:
    """The directory of a digest: `sha256-<hex>`."""
    return digest.replace(":", "-", 1)


def digest_of(name: str) -> str | None:
    """The digest that a directory's name stands for; None for any other name."""
    found = _FOLDER.fullmatch(name)
    return f"sha256:{found[1]}" if found else None


def is_environment(name: str) -> bool:
    """Whether a name may be a directory of one environment."""
    return _ENVIRONMENT.fullmatch(name) is not None


def is_dag(name: str) -> bool:
    """Whether a name may be a DAG's in a checkpoint and in an acknowledgement, and a file's."""
    return re.fullmatch(r"[A-Za-z0-9](?:[A-Za-z0-9_.-]{0,198}[A-Za-z0-9])?", name) is not None


def deployment_path(environment: str, digest: str) -> str:
    """Where a deployment lies."""
    return f"{DEPLOYMENTS}/{environment}/{folder_name(digest)}"


def activation_path(environment: str, digest: str) -> str:
    """Where the sealed activation of a deployment lies."""
    return f"{ACTIVATIONS}/{environment}/{folder_name(digest)}"


def placed(path: str, wanted: str) -> str:
    """Where a recorded path lies below the root.

    An earlier release may have recorded absolute ones; where such a one ends in just what the
    layout says, that is meant, wherever the cache lies by now. Any other path stays what it is.
    """
    return wanted if path.startswith("/") and path.endswith("/" + wanted) else path


def release_path(digest: str) -> str:
    """Where a release lies."""
    return f"{RELEASES}/{folder_name(digest)}"


def text_of(name: str) -> str:
    r"""A file name as text without loss: a byte that is no UTF-8 as `\xff`, a backslash doubled."""
    doubled = name.replace("\\", "\\\\")
    return doubled.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def is_tolerated(name: str) -> bool:
    """Whether file systems and platforms put such a name into directories by themselves."""
    return name in ("lost+found", ".snapshot", ".DS_Store") or name.startswith(".nfs")


def is_temporary(name: str) -> bool:
    """Whether a name is the unfinished one of a directory that is being made or restored."""
    return (
        re.fullmatch(r"\.sha256-[0-9a-f]{64}\.(?:restore|tmp(?:\.[0-9a-f-]+)?)", name) is not None
    )


def moment_of(text: str) -> datetime:
    """A date and time with its offset. Raises `ValueError`."""
    moment = datetime.fromisoformat(text.replace("z", "Z"))
    if moment.tzinfo is None:
        raise ValueError("a time has no offset")
    return moment


# -- durable files ---------------------------------------------------------------------------------


def durable(value: Any) -> bytes:
    """The bytes of a file: JSON with sorted keys, two spaces of indent and a last newline."""
    return msgspec.json.format(compact(value), indent=2) + b"\n"


def compact(value: Any) -> bytes:
    """JSON with sorted keys in one line."""
    return msgspec.json.encode(value, order="sorted")


def bytes_digest(data: bytes) -> str:
    """The digest of a file's bytes."""
    return "sha256:" + hashlib.sha256(data).hexdigest()


def read_durable(data: bytes, kind: type[T], *, bytes_max: int) -> T:
    """Read a file into a closed struct. Raises `ContractInvalid`.

    Bytes that are just what `durable` writes hold no duplicate key and no odd number, so the fast
    decoder may read them; everything else goes through the careful one.
    """
    if len(data) <= bytes_max:
        try:
            found = msgspec.json.decode(data, type=kind)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            pass
        else:
            if durable(found) == data:
                return found
    return convert(parse(data, bytes_max=bytes_max), kind)


def digest_without(value: Any, field: str) -> str:
    """The canonical digest of a value without one of its fields."""
    body = plain(value)
    body.pop(field, None)
    return sealed_digest(body)


def sealed_digest(value: Any) -> str:
    """The canonical digest of texts, whole numbers, lists and objects; a test compares the two."""
    return bytes_digest(compact(value))


# -- checks that several contracts share -----------------------------------------------------------


def refuse(reason: str) -> NoReturn:
    """Say why a value does not satisfy its contract. Raises `ValueError`."""
    raise ValueError(reason)


def check_sorted(values: tuple[str, ...], what: str) -> None:
    """Refuse values that are not unique and in order. Raises `ValueError`."""
    if any(left >= right for left, right in pairwise(values)):
        refuse(f"{what} are not sorted and unique")


def check_unique(values: tuple[Any, ...], what: str) -> None:
    """Refuse values of which two are alike. Raises `ValueError`."""
    if len(set(values)) != len(values):
        refuse(f"{what} are not unique")


def check_revision(value: Any, field: str = "revision") -> None:
    """Refuse a value whose revision is not the digest of the rest. Raises `ValueError`."""
    if getattr(value, field) != digest_without(value, field):
        refuse(f"{field} is not the digest of the rest")


def holds(**fields: Any) -> dict[str, Any]:
    """A rule on some fields for a JSON Schema; it says nothing of which fields there are."""
    return {"patternProperties": {f"^{name}$": rule for name, rule in fields.items()}}


# -- the root --------------------------------------------------------------------------------------


def unsafe_root(given: str, resolved: str, working: str, home: str) -> str:
    """Why a directory must not be taken for a cache, as a reason; empty when nothing is wrong.

    `given` is the text of the option; the others are absolute paths without links.
    """
    parts = given.split("/")
    if given.strip() in ("", "."):
        return "it is empty or the working directory"
    if resolved == "/":
        return "it is the root of the file system"
    if parts[0].startswith("~"):
        return "it begins with ~, which nobody expanded"
    if resolved == home:
        return "it is the home directory"
    if ".." in parts:
        return "it leads upwards with .."
    if working == resolved or working.startswith(resolved + "/"):
        return "the working directory lies in it"
    if home.startswith(resolved + "/"):
        return "the home directory lies in it"
    return ""
