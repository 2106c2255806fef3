"""The fence's statements. `{fence}` and `{meta}` stand for the two tables.

Every claim and seal compares the incarnation and reads the floor in the very statement that
writes, so that nothing can change in between. The incarnation names server, database and fence.
"""

from __future__ import annotations

PROTOCOL = 1

SCHEMA = """
BEGIN;
SELECT pg_advisory_xact_lock(6079413222);
CREATE TABLE IF NOT EXISTS {meta}(key text PRIMARY KEY, value text NOT NULL);
CREATE TABLE IF NOT EXISTS {fence}(
 operation_id text PRIMARY KEY, kind text NOT NULL, epoch bigint NOT NULL,
 attempt_id text NOT NULL, intent_digest text NOT NULL, result text NOT NULL,
 xid xid8 NOT NULL, written_at timestamptz NOT NULL);
INSERT INTO {meta} VALUES ('protocol', '1'),
 ('incarnation', replace(gen_random_uuid()::text, '-', '')) ON CONFLICT DO NOTHING;
COMMIT;
"""

INCARNATION = (
    "SELECT (SELECT system_identifier FROM pg_control_system()), current_database(),"
    " current_schema()"
)

_HERE = (
    "(SELECT m.value || '@' || (SELECT system_identifier FROM pg_control_system())"
    " || '.' || (SELECT oid FROM pg_database WHERE datname = current_database())"
    " FROM {meta} m WHERE m.key = 'incarnation')"
)

ASK = (
    f"SELECT {_HERE}, (SELECT value FROM {{meta}} WHERE key = 'protocol'),"
    " (SELECT value FROM {meta} WHERE key = $2),"
    " f.kind, f.epoch, f.attempt_id, f.intent_digest, f.result"
    " FROM (SELECT $1::text AS id) wanted LEFT JOIN {fence} f ON f.operation_id = wanted.id"
)
LOOK = ASK

_FITS = (
    f"(SELECT value::int FROM {{meta}} WHERE key = 'protocol') <= {PROTOCOL} AND "
    f'$5 = {_HERE} AND NOT EXISTS (SELECT 1 FROM {{meta}} WHERE key = $6 AND $7::text COLLATE "C"'
    ' < value COLLATE "C")'
)

CLAIM_FIRST = (
    "INSERT INTO {fence} AS f SELECT $1, 'claimed', $2::bigint, $3, $4, '', pg_current_xact_id(),"
    f" now() WHERE {_FITS} ON CONFLICT (operation_id) DO UPDATE SET kind = excluded.kind,"
    " intent_digest = excluded.intent_digest, xid = excluded.xid,"
    " written_at = excluded.written_at WHERE f.kind = 'sealed' AND f.epoch = excluded.epoch"
    " AND f.attempt_id = excluded.attempt_id RETURNING xid::text"
)

CLAIM_SEALED = (
    "UPDATE {fence} SET kind = 'claimed', intent_digest = $4, xid = pg_current_xact_id(),"
    " written_at = now() WHERE operation_id = $1 AND kind = 'sealed' AND epoch = $2::bigint"
    f" AND attempt_id = $3 AND {_FITS} RETURNING xid::text"
)

TRANSACTION = "SELECT pg_current_xact_id_if_assigned()::text"

FINISH = (
    "UPDATE {fence} SET kind = 'committed', result = $1 WHERE operation_id = $2"
    " AND attempt_id = $3 AND kind = 'claimed' AND xid = pg_current_xact_id() RETURNING 1"
)

SEAL = (
    "INSERT INTO {fence} AS f SELECT $1, 'sealed', $2::bigint, $3, $4, '', pg_current_xact_id(),"
    f" now() WHERE {_FITS} ON CONFLICT (operation_id) DO UPDATE SET epoch = excluded.epoch,"
    " attempt_id = excluded.attempt_id, intent_digest = excluded.intent_digest,"
    " xid = excluded.xid, written_at = excluded.written_at"
    " WHERE f.kind = 'sealed' AND f.epoch < excluded.epoch RETURNING 1"
)

END_SESSIONS = (
    "SELECT count(*) FILTER (WHERE ended) FROM (SELECT pg_terminate_backend(pid, 5000) AS ended"
    " FROM pg_stat_activity WHERE application_name = ANY(string_to_array($1, ','))"
    " AND datname = current_database() AND pid <> pg_backend_pid()) sessions"
)

SHORTEN = (
    "WITH done AS (UPDATE {fence} SET result = ''"
    " WHERE kind = 'committed' AND operation_id IN (SELECT jsonb_array_elements_text($1::jsonb))"
    " RETURNING 1) SELECT count(*) FROM done"
)

FLOOR_RAISE = (
    "INSERT INTO {meta} AS m VALUES ($1, $2) ON CONFLICT (key) DO UPDATE SET value ="
    ' CASE WHEN m.value COLLATE "C" < excluded.value COLLATE "C" THEN excluded.value'
    " ELSE m.value END"
)

FLOOR_REMOVE = (
    "WITH gone AS (DELETE FROM {fence} WHERE operation_id IN"
    " (SELECT jsonb_array_elements_text($1::jsonb)) RETURNING 1) SELECT count(*) FROM gone"
)


def owners_statement(prefix: str, role: str) -> str:
    """What an owner runs so that `role` can use the fence whose names begin with `prefix`."""
    name = '"' + role.replace('"', '""') + '"'
    grants = f"GRANT SELECT, INSERT, UPDATE, DELETE ON {{fence}}, {{meta}} TO {name};"
    if prefix:
        grants += f" GRANT USAGE ON SCHEMA {prefix.removesuffix('.')} TO {name};"
    return " ".join(f"{SCHEMA} {grants}".split())
