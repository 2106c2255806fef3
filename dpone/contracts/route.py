"""The route manifest, `dpone.route.v1`: what a person writes to describe a load.

Promise: the structs are closed; whatever they do not name is refused, and a manifest that decodes
has exactly one source, one target and one strategy. Not promised: that the files, connections and
tables it names exist.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from dpone.contracts.codec import reason_of, schema_of
from dpone.contracts.errors import ContractInvalid

ROUTE_SCHEMA = "dpone.route.v1"
NAME_CHARS_MAX = 200
Every = Literal["day", "month", "year"]


def _one_of(value: Any, names: tuple[str, ...]) -> None:
    given = [name for name in names if getattr(value, name) is not None]
    if len(given) != 1:
        raise ValueError(f"name exactly one of {', '.join(names)}")


def _text(value: str | None, what: str) -> None:
    if value is not None and (not value.strip() or len(value) > NAME_CHARS_MAX * 5):
        raise ValueError(f"{what} is empty or too long")
    if value is not None and any(ord(letter) < 32 for letter in value):
        raise ValueError(f"{what} holds a control character")


class Query(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Rows of a SQL query on a named connection; `watermark` declares how far it reads."""

    connection: str
    sql: str
    watermark: str = ""

    def __post_init__(self) -> None:
        _text(self.connection, "connection")
        if not self.sql.strip():
            raise ValueError("sql is empty")


class SourceSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Exactly one of `csv`, `parquet`, `jsonl` (path or glob) and `query`.

    Paths are relative to the project root, or to the folder of the named `connection`.
    `delimiter`, `quote`, `null` (texts that mean a missing value), `header` and `encoding`
    apply to CSV.
    """

    csv: str | None = None
    parquet: str | None = None
    jsonl: str | None = None
    query: Query | None = None
    connection: str | None = None
    delimiter: str = ","
    quote: str = '"'
    null: tuple[str, ...] = ("",)
    header: Annotated[bool, msgspec.Meta(extra_json_schema={"enum": [True]})] = True
    encoding: Literal["utf-8"] = "utf-8"

    def __post_init__(self) -> None:
        _one_of(self, ("csv", "parquet", "jsonl", "query"))
        _text(self.csv or self.parquet or self.jsonl, "the path")
        for name in ("delimiter", "quote"):
            value = getattr(self, name)
            if len(value) != 1 or not value.isascii() or value in "\r\n\0":
                raise ValueError(f"{name} is not one ASCII character")
        if not self.header:
            raise ValueError("header is not true: a CSV file has a line with its columns' names")
        if self.delimiter == self.quote:
            raise ValueError("delimiter and quote are the same")
        changed = (self.delimiter, self.quote, self.null) != (",", '"', ("",))
        if changed and self.csv is None:
            raise ValueError("delimiter, quote and null apply to csv")
        if any("\n" in token or "\r" in token for token in self.null):
            raise ValueError("null holds a line break")

    @property
    def kind(self) -> str:
        """`csv`, `parquet`, `jsonl` or `query`."""
        kinds = ("csv", "parquet", "jsonl", "query")
        return next(name for name in kinds if getattr(self, name) is not None)

    @property
    def pattern(self) -> str:
        """The path or glob of a file source; empty for a query."""
        return self.csv or self.parquet or self.jsonl or ""


class TargetSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Exactly one of `duckdb`, `sqlite`, `csvdir` (path) and `postgres` (connection name).

    `fence_schema` names the PostgreSQL schema of the fence tables.
    """

    table: str
    duckdb: str | None = None
    sqlite: str | None = None
    postgres: str | None = None
    csvdir: str | None = None
    fence_schema: str | None = None

    def __post_init__(self) -> None:
        _one_of(self, ("duckdb", "sqlite", "postgres", "csvdir"))
        _text(self.place, "the place")
        _text(self.table, "table")
        if self.fence_schema is not None and self.postgres is None:
            raise ValueError("fence_schema applies to postgres")

    @property
    def kind(self) -> str:
        """`duckdb`, `sqlite`, `postgres` or `csvdir`."""
        kinds = ("duckdb", "sqlite", "postgres", "csvdir")
        return next(name for name in kinds if getattr(self, name) is not None)

    @property
    def place(self) -> str:
        """The path or connection name as declared."""
        return str(getattr(self, self.kind))


class Keyed(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`replace_partition` (columns) or `merge` (key columns)."""

    replace_partition: tuple[str, ...] | None = None
    merge: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        _one_of(self, ("replace_partition", "merge"))
        columns = self.replace_partition or self.merge or ()
        if not columns or len(set(columns)) != len(columns):
            raise ValueError("the list of columns is empty or names one twice")


class Interval(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A column of dates or times, cut by day, month or year (UTC)."""

    column: str
    every: Every


class Cut(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One operation for each value of `column`, or for each `interval` of a column."""

    column: str | None = None
    interval: Interval | None = None

    def __post_init__(self) -> None:
        _one_of(self, ("column", "interval"))


class JournalSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Exactly one of `sqlite` (path) and `postgres` (connection name)."""

    sqlite: str | None = None
    postgres: str | None = None

    def __post_init__(self) -> None:
        _one_of(self, ("sqlite", "postgres"))


class RouteManifest(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The whole manifest; see `dpone schema dpone.route.v1`."""

    schema: Literal["dpone.route.v1"]
    route: str
    source: SourceSpec
    target: TargetSpec
    strategy: Literal["append", "full_refresh"] | Keyed
    partition: Literal["none", "file"] | Cut = "none"
    journal: JournalSpec = JournalSpec(sqlite=".dpone/journal.db")
    revision: int = 1
    columns: dict[str, str] | tuple[str, ...] | None = None
    ordered: bool = False

    def __post_init__(self) -> None:
        _text(self.route, "route")
        if self.revision < 1:
            raise ValueError("revision begins at 1")
        if self.columns is not None:
            names = list(self.columns)
            folded = {name.casefold() for name in names}
            if not names or len(folded) != len(names) or not all(name.strip() for name in names):
                raise ValueError("columns is empty, or names one twice")
        self._check_partition()

    def _check_partition(self) -> None:
        if self.ordered and self.partition == "none":
            raise ValueError("ordered needs a partition")
        if self.strategy == "full_refresh" and self.partition != "none":
            raise ValueError("full_refresh needs partition: none, or each part erases the others")
        if self.source.kind == "query" and self.partition == "file":
            raise ValueError("a query has no files to partition by")
        replaced = self.replaced
        if replaced and self.cut_column and self.cut_column not in replaced:
            # Otherwise one partition would delete what another one has just loaded.
            raise ValueError(f"replace_partition must list the partition column {self.cut_column}")

    @property
    def replaced(self) -> tuple[str, ...]:
        """Columns of `replace_partition`; empty for other strategies."""
        return (self.strategy.replace_partition or ()) if isinstance(self.strategy, Keyed) else ()

    @property
    def keys(self) -> tuple[str, ...]:
        """Key columns of `merge`; empty for other strategies."""
        return (self.strategy.merge or ()) if isinstance(self.strategy, Keyed) else ()

    @property
    def cut_column(self) -> str:
        """The column by which the route is cut; empty when it is not cut by a column."""
        if not isinstance(self.partition, Cut):
            return ""
        return self.partition.column or (
            self.partition.interval.column if self.partition.interval else ""
        )

    @property
    def strategy_name(self) -> str:
        """`append`, `full_refresh`, `replace_partition` or `merge`."""
        if isinstance(self.strategy, str):
            return self.strategy
        return "merge" if self.strategy.merge is not None else "replace_partition"

    @property
    def types(self) -> dict[str, str]:
        """Declared column types, or an empty mapping."""
        return dict(self.columns) if isinstance(self.columns, dict) else {}


FIELDS_AT: dict[str, tuple[str, ...]] = {
    place: kind.__struct_fields__
    for place, kind in {
        "$": RouteManifest,
        "$.source": SourceSpec,
        "$.source.query": Query,
        "$.target": TargetSpec,
        "$.strategy": Keyed,
        "$.partition": Cut,
        "$.partition.interval": Interval,
        "$.journal": JournalSpec,
    }.items()
}
"""The fields of a manifest by the place of their mapping."""

_ONE_OF = {
    "SourceSpec": ("csv", "parquet", "jsonl", "query"),
    "TargetSpec": ("duckdb", "sqlite", "postgres", "csvdir"),
    "Keyed": ("replace_partition", "merge"),
    "Cut": ("column", "interval"),
    "JournalSpec": ("sqlite", "postgres"),
}


def route_schema() -> dict[str, Any]:
    """Return the JSON Schema of the manifest, with the rule that exactly one field is named."""
    schema = schema_of(RouteManifest)
    for name, fields in _ONE_OF.items():
        body = schema["$defs"][name]
        body["oneOf"] = [{"required": [field]} for field in fields]
        for field in fields:
            _never_null(body["properties"][field])
    return schema


def _never_null(field: dict[str, Any]) -> None:
    """A named field is never null: `null` in YAML is a text here."""
    field.pop("default", None)
    kinds = [kind for kind in field.get("anyOf", []) if kind != {"type": "null"}]
    if len(kinds) == 1:
        field.pop("anyOf")
        field.update(kinds[0])


def route_of(value: Any) -> RouteManifest:
    """Convert texts, lists and mappings into a manifest; numbers and flags may be texts.

    Raises `ContractInvalid`, whose reason ends with the place, such as "- at `$.source`".
    """
    try:
        return msgspec.convert(value, RouteManifest, strict=False)
    except msgspec.ValidationError as error:
        raise ContractInvalid(contract=ROUTE_SCHEMA, reason=reason_of(error)) from None
