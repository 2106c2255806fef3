"""Where a journal or a target is, from a connection of Airflow.

Promise: passwords stay in the connection; what is named in an identity or a message is the
connection's id. Source of the form: the connection URI of libpq.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, urlencode

from dpone.contracts.errors_airflow import AirflowConnectionInvalid

_SPEC = re.compile(r"(sqlite|duckdb|postgres):.")
_FILES = ("sqlite", "duckdb")
# What no id of a connection holds, and the address of a server may.
_ADDRESS = re.compile(r"(\w+)://|[@=\s]")
# What libpq takes beside the address; what else an extra holds is Airflow's own.
_PARAMETERS = (
    *(
        "sslmode",
        "sslcert",
        "sslkey",
        "sslpassword",
        "sslrootcert",
        "sslcrl",
        "sslcrldir",
        "sslsni",
    ),
    *("ssl_min_protocol_version", "ssl_max_protocol_version", "sslnegotiation", "channel_binding"),
    *("require_auth", "requirepeer", "passfile", "service", "gssencmode", "krbsrvname"),
    *("target_session_attrs", "load_balance_hosts", "hostaddr", "options", "connect_timeout"),
    *("keepalives", "keepalives_idle", "keepalives_interval", "keepalives_count"),
    *("tcp_user_timeout",),
)


def is_spec(named: str) -> bool:
    """Whether a text is the place itself and no connection's id."""
    return _SPEC.match(named) is not None


def address_of(named: str) -> str:
    """An address as it may be shown, where one stands for a connection's id; else empty."""
    found = _SPEC.match(named) or _ADDRESS.match(named)
    if found is not None or _ADDRESS.search(named):
        return f"{found[1]}:…" if found is not None and found[1] else "…"
    return ""


def is_file(spec: str) -> bool:
    """Whether a spec is a path, which may enter an identity and be shown."""
    return spec.partition(":")[0] in _FILES


def spec_of(connection: Any, name: str) -> str:
    """The place that a connection of Airflow names. Raises `AirflowConnectionInvalid`."""
    kind = connection.conn_type
    if kind == "dpone":
        extra = connection.extra_dejson
        spec = extra.get("spec", "") if isinstance(extra, Mapping) else ""
        if isinstance(spec, str) and _SPEC.match(spec):
            return spec
        reason = "its extra has no spec that begins with postgres:, sqlite: or duckdb:"
        raise AirflowConnectionInvalid(name=name, reason=reason)
    if kind in ("postgres", "postgresql"):
        if not isinstance(connection.extra_dejson, Mapping):
            raise AirflowConnectionInvalid(name=name, reason="its extra is no JSON object")
        return "postgres:" + _dsn(connection)
    if kind in _FILES:
        place = connection.host or connection.schema
        if place:
            return f"{kind}:{place}"
        raise AirflowConnectionInvalid(name=name, reason="it names no file")
    raise AirflowConnectionInvalid(name=name, reason=f"it is of type {kind}")


def _dsn(connection: Any) -> str:
    """A connection URI of libpq."""
    user = quote(connection.login or "", safe="")
    if connection.password:
        user += ":" + quote(connection.password, safe="")
    named = connection.host or ""
    host = quote(named, safe="" if named.startswith("/") else ":[]")
    if ":" in host and not host.startswith("["):
        host = f"[{host}]"
    port = f":{connection.port}" if connection.port else ""
    extra: Mapping[str, Any] = connection.extra_dejson
    given = {name: str(extra[name]) for name in _PARAMETERS if extra.get(name) not in (None, "")}
    tail = "?" + urlencode(given, quote_via=quote) if given else ""
    at = f"{user}@" if user else ""
    return f"postgresql://{at}{host}{port}/{quote(connection.schema or '', safe='')}{tail}"
