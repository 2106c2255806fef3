"""The mistakes around a PostgreSQL server, each with the code that it must get."""

from __future__ import annotations

import itertools
import os
import socket
from collections.abc import Callable

from psycopg.conninfo import make_conninfo

from tests.cli.mistakes import SECRET, Case
from tests.loading.project import ITEMS, TARGETS, WAREHOUSE, Project

Make = Callable[[Project, str], object]
TARGET = TARGETS["postgres"]
_NUMBERS = itertools.count(1)


def other(project: Project, **fields: str) -> None:
    """A route that was not loaded yet."""
    project.route(**{"target": TARGET, "route": "other", **fields})


def connect(project: Project, dsn: str) -> None:
    """Let the connection `warehouse` be another one, until the test ends."""
    os.environ[WAREHOUSE] = f"postgres:{dsn}"
    other(project)


def connected(**changes: str) -> Make:
    """The same connection with other parameters."""
    return lambda project, kind: connect(project, make_conninfo(project.warehouse, **changes))


def table(*statements: str, **fields: str) -> Make:
    """Statements of the owner first; then the rows are loaded into the table `other`."""

    def make(project: Project, kind: str) -> None:
        for statement in statements:
            project.postgres(statement)
        other(project, **{"target": TARGET.replace("items", "other"), "columns": "", **fields})

    return make


COLUMNS = "id integer, grp text, day date, amount double precision"


def made(*statements: str) -> Make:
    """A table `other` with the columns of the source, and what makes it refuse them."""
    return table(f"CREATE TABLE other ({COLUMNS})", *statements)


def nobody_listens(project: Project, kind: str) -> None:
    # Bound and not listening: the port answers nobody, and nobody else gets it meanwhile.
    taken = project.held.enter_context(socket.socket())
    taken.bind(("127.0.0.1", 0))
    port = taken.getsockname()[1]
    connect(project, f"host=127.0.0.1 port={port} user=u password={SECRET}")


def with_password(password: str) -> Make:
    """A role that must prove itself, with a password of ours."""

    def make(project: Project, kind: str) -> None:
        connect(project, proven(project, password))

    return make


def proven(project: Project, password: str) -> str:
    assert project.server is not None
    role, dbname = f"proven_{next(_NUMBERS)}", database(project)
    dsn = project.held.enter_context(project.server.with_password(role, "right", dbname=dbname))
    return make_conninfo(dsn, password=password) if password else dsn


def database(project: Project) -> str:
    return str(project.postgres("SELECT current_database()")[0][0])


def as_clerk(*grants: str, fence_schema: str = "") -> Make:
    """A role that owns nothing; `grants` end with ` TO `, and `{s}` is the test's schema."""

    def make(project: Project, kind: str) -> None:
        role, schema = f"clerk_{next(_NUMBERS)}", project.schema
        project.postgres(f"CREATE ROLE {role} LOGIN")
        project.held.callback(project.postgres, f"DROP ROLE {role}")
        project.held.callback(project.postgres, f"DROP OWNED BY {role}")
        project.postgres(f"CREATE SCHEMA {schema}_x")
        for grant in grants:
            project.postgres(grant.format(s=schema) + role)
        connect(project, make_conninfo(project.warehouse, user=role))
        if fence_schema:
            place = fence_schema.format(s=schema)
            other(project, target=f"{TARGET[:-1]}, fence_schema: {place}}}")

    return make


USE = "GRANT USAGE ON SCHEMA {s} TO "
FENCE = "GRANT ALL ON {s}.dpone_fence, {s}.dpone_fence_meta TO "
WRITE = "GRANT SELECT, INSERT, DELETE ON {s}.items TO "


def secured(project: Project, kind: str) -> None:
    as_clerk(USE, FENCE, WRITE)(project, kind)
    project.postgres("ALTER TABLE items ENABLE ROW LEVEL SECURITY")


def read_only_by_default(project: Project, kind: str) -> None:
    project.postgres(f"CREATE SCHEMA {project.schema}_x")
    options = f"-csearch_path={project.schema}_x -cdefault_transaction_read_only=on"
    connected(options=options)(project, kind)


def too_little_disk(project: Project, kind: str) -> None:
    """A sort that needs more room for temporary files than the server grants."""
    rows = "".join(f"{number},{'x' * 40}{number}\n" for number in range(20_000))
    project.write("items.csv", "id,grp\n" + rows)
    options = f"-csearch_path={project.schema} -ctemp_file_limit=0 -cwork_mem=64kB"
    connected(options=options)(project, kind)
    other(project, columns="[id, grp]", strategy="{merge: [grp, id]}")


def query(sql: str, dsn: Callable[[Project], str] = lambda project: project.warehouse) -> Make:
    """The rows come from a query on a server, and go into a file."""

    def make(project: Project, kind: str) -> None:
        os.environ["DPONE_CONNECTION_SHOP"] = f"postgres:{dsn(project)}"
        project.held.callback(os.environ.pop, "DPONE_CONNECTION_SHOP")
        source = f'{{query: {{connection: shop, sql: "{sql}"}}}}'
        other(project, source=source, target=TARGETS["sqlite"], columns="")

    return make


def journal_of(dsn: Callable[[Project], str]) -> Make:
    """The journal lies on a server."""

    def make(project: Project, kind: str) -> None:
        os.environ["DPONE_CONNECTION_DIARY"] = f"postgres:{dsn(project)}"
        project.held.callback(os.environ.pop, "DPONE_CONNECTION_DIARY")
        other(project, journal="{postgres: diary}")

    return make


def dead(project: Project) -> str:
    return f"host=127.0.0.1 port=1 user=u password={SECRET}"


def end_mark(project: Project, kind: str) -> None:
    """A line that older servers take for the end of the data."""
    project.write("items.csv", ITEMS + "\\.\n9,a,2024-01-01,1\n")
    texts = COLUMNS.replace("id integer", "id text")
    table(f"CREATE TABLE other ({texts})")(project, kind)


def fence_is_gone(project: Project, kind: str) -> None:
    """The same route again, after somebody dropped the fence."""
    project.postgres("DROP TABLE dpone_fence, dpone_fence_meta")


def pg(name: str, code: str, exit_code: int, make: Make) -> Case:
    return Case(name, code, exit_code, make, ("postgres",))


SERVERS = [
    pg("nobody listens", "DPONE_TARGET_UNREACHABLE", 3, nobody_listens),
    pg("wrong password", "DPONE_TARGET_AUTHENTICATION", 4, with_password(SECRET)),
    pg("no password", "DPONE_TARGET_AUTHENTICATION", 4, with_password("")),
    pg("unknown role", "DPONE_TARGET_AUTHENTICATION", 4, connected(user="nobody_here")),
    pg("no such database", "DPONE_TARGET_INVALID", 4, connected(dbname="nowhere")),
    pg("no connection string", "DPONE_TARGET_INVALID", 4,
       lambda project, kind: connect(project, f"host=x {SECRET}")),
    pg("unknown parameter", "DPONE_TARGET_INVALID", 4,
       lambda project, kind: connect(project, f"postgresql://u:{SECRET}@h/db?pass={SECRET}")),
    pg("no such fence schema", "DPONE_TARGET_INVALID", 4, as_clerk(fence_schema="{s}_nowhere")),
    pg("no schema at all", "DPONE_TARGET_INVALID", 4, connected(options="-csearch_path=nowhere")),
    pg("no right to create the fence", "DPONE_TARGET_PRIVILEGE", 4,
       as_clerk(USE, "GRANT USAGE ON SCHEMA {s}_x TO ", fence_schema="{s}_x")),
    pg("no right to use its schema", "DPONE_TARGET_PRIVILEGE", 4,
       as_clerk(USE, fence_schema="{s}_x")),
    pg("no right to read the fence", "DPONE_TARGET_PRIVILEGE", 4, as_clerk(USE, WRITE)),
    pg("no right to write the table", "DPONE_LOAD_REFUSED", 1, as_clerk(USE, FENCE)),
    pg("read-only by default", "DPONE_TARGET_READ_ONLY", 4, read_only_by_default),
    pg("too little disk", "DPONE_TARGET_COMMIT_REJECTED", 1, too_little_disk),
    pg("fence of a newer version", "DPONE_PROTOCOL_TOO_OLD", 4,
       table("UPDATE dpone_fence_meta SET value = '99' WHERE key = 'protocol'")),
    pg("fence is gone", "DPONE_TARGET_COMMIT_DIVERGED", 4, fence_is_gone),
    pg("journal: nobody listens", "DPONE_JOURNAL_UNAVAILABLE", 3, journal_of(dead)),
    pg("journal: wrong password", "DPONE_TARGET_AUTHENTICATION", 4,
       journal_of(lambda project: proven(project, SECRET))),
    pg("journal: no connection string", "DPONE_JOURNAL_INVALID", 4,
       journal_of(lambda project: f"host=x {SECRET}")),
    pg("journal: no such database", "DPONE_JOURNAL_INVALID", 4,
       journal_of(lambda project: make_conninfo(project.warehouse, dbname="nowhere"))),
]  # fmt: skip

TABLES = [
    pg("materialized view", "DPONE_LOAD_TABLE_INVALID", 1,
       table("CREATE MATERIALIZED VIEW other AS SELECT 1 AS id")),
    pg("no such schema", "DPONE_LOAD_TABLE_INVALID", 1, table(
        target="{postgres: warehouse, table: nowhere.other}")),
    pg("row-level security", "DPONE_LOAD_TABLE_INVALID", 1, secured),
    pg("CHECK", "DPONE_LOAD_CONSTRAINT", 1, made("ALTER TABLE other ADD CHECK (id < 4)")),
    pg("deferred UNIQUE", "DPONE_TARGET_COMMIT_REJECTED", 1,
       made("ALTER TABLE other ADD UNIQUE (grp) DEFERRABLE INITIALLY DEFERRED")),
    pg("trigger", "DPONE_LOAD_REFUSED", 1, made(
        "CREATE FUNCTION no() RETURNS trigger LANGUAGE plpgsql AS"
        " $$BEGIN RAISE EXCEPTION 'closed'; END$$",
        "CREATE TRIGGER no BEFORE INSERT ON other FOR EACH ROW EXECUTE FUNCTION no()")),
    pg("number out of range", "DPONE_SOURCE_VALUE", 1,
       table(f"CREATE TABLE other ({COLUMNS.replace('double precision', 'numeric(1, 1)')})")),
    pg("text too long", "DPONE_SOURCE_VALUE", 1,
       table(f"CREATE TABLE other ({COLUMNS.replace('grp text', 'grp varchar(0001)')})",
             "ALTER TABLE other ALTER day TYPE varchar(4)")),
    pg("line of a backslash and a dot", "DPONE_SOURCE_RAGGED", 1, end_mark),
]  # fmt: skip

QUERIES = [
    pg("query: nobody listens", "DPONE_SOURCE_UNREACHABLE", 3, query("SELECT 1 AS id", dead)),
    pg("query: wrong password", "DPONE_TARGET_AUTHENTICATION", 4,
       query("SELECT 1 AS id", lambda project: proven(project, SECRET))),
    pg("query: no such table", "DPONE_SOURCE_QUERY", 1, query("SELECT * FROM nothing")),
    pg("query: it writes", "DPONE_SOURCE_QUERY", 1, query("DELETE FROM items")),
    pg("query: it writes inside", "DPONE_SOURCE_QUERY", 1,
       query("WITH gone AS (DELETE FROM items RETURNING id) SELECT * FROM gone")),
    pg("query: it writes later", "DPONE_SOURCE_QUERY", 1,
       query("SELECT 1) AS rows; COMMIT; DELETE FROM items; SELECT (1")),
    pg("query: it writes in a function", "DPONE_SOURCE_QUERY", 1,
       query("SELECT query_to_xml('DELETE FROM items RETURNING id', true, true, '')::text AS x")),
    pg("query: it fails half way", "DPONE_SOURCE_QUERY", 1,
       query("SELECT 1 / (1000 - n) AS id FROM generate_series(1, 2000) AS n")),
    pg("query: a value in the words", "DPONE_SOURCE_QUERY", 1,
       query(f"SELECT ('{SECRET}' || n)::integer AS id FROM generate_series(1, 2) AS n")),
    pg("query: binary", "DPONE_SOURCE_QUERY", 1, query("SELECT 'x'::bytea AS id")),
    pg("query: no columns", "DPONE_SOURCE_QUERY", 1, query("SELECT FROM items")),
    pg("query: column twice", "DPONE_SOURCE_COLUMN_DUPLICATE", 1,
       query("SELECT 1 AS id, 2 AS id")),
    pg("query: no such database", "DPONE_SOURCE_QUERY", 1,
       query("SELECT 1", lambda project: make_conninfo(project.warehouse, dbname="nowhere"))),
    pg("query: no connection string", "DPONE_SOURCE_QUERY", 1,
       query("SELECT 1", lambda project: f"host=x {SECRET}")),
]  # fmt: skip

POSTGRES = [*SERVERS, *TABLES, *QUERIES]
