"""Connections of Airflow as places of journals and targets.

Promise: a connection is read and opened only when a task runs; nothing of it enters an identity, a
message or an XCom but its name.
"""

from __future__ import annotations

from typing import Any

from dpone.airflow import compat, places
from dpone.airflow.attempt import sentence_of
from dpone.contracts.errors import DponeError
from dpone.contracts.errors_airflow import AirflowConnectionInvalid
from dpone.contracts.fence import Unknown
from dpone.ports.journal import Journal
from dpone.ports.target import Target


class DponeHook(compat.BaseHook):
    """A journal or a target.

    A connection of type `dpone` has the extra `{"spec": "postgres:<connection string>"}`, or a
    spec `sqlite:<path>` or `duckdb:<path>`. Connections of the types postgres, sqlite and duckdb
    are taken as they are.
    """

    conn_name_attr = "dpone_conn_id"
    default_conn_name = "dpone_default"
    conn_type = "dpone"
    hook_name = "dpone journal or target"

    def __init__(self, dpone_conn_id: str = default_conn_name, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.dpone_conn_id = dpone_conn_id

    @property
    def spec(self) -> str:
        """`<kind>:<place>`. Raises `AirflowConnectionInvalid`."""
        name = self.dpone_conn_id
        if shown := places.address_of(name):
            reason = "a place is named by a connection of Airflow and not by its address"
            raise AirflowConnectionInvalid(name=shown, reason=reason)
        try:
            found = self.get_connection(name)
        except compat.AirflowNotFoundException:
            if not compat.connection_is_missing(name):
                raise
            reason = "there is none of this name"
            raise AirflowConnectionInvalid(name=name, reason=reason) from None
        return places.spec_of(found, name)

    def open_journal(self) -> Journal:
        """Open the journal. The caller closes it."""
        from dpone import wiring

        return wiring.open_journal(self.spec, connection=self.dpone_conn_id)

    def get_conn(self) -> Target:
        """Open the target. The caller closes it."""
        return opened_target(self.spec, self.dpone_conn_id)

    def test_connection(self) -> tuple[bool, str]:
        """Whether the place answers, as a target; writes nothing."""
        from contextlib import closing

        try:
            with closing(self.get_conn()) as target:
                verdict = target.ask("sha256:" + "0" * 64, None).verdict
                if isinstance(verdict, Unknown):
                    return False, f"{target.name} does not answer: {verdict.cause}"
                return True, f"{target.name} answers"
        except DponeError as error:
            return False, sentence_of(error)

    @classmethod
    def get_ui_field_behaviour(cls) -> dict[str, Any]:
        """The form of a connection: only the extra counts."""
        hidden = ["host", "schema", "login", "password", "port"]
        return {
            "hidden_fields": hidden,
            "relabeling": {},
            "placeholders": {"extra": '{"spec": "sqlite:/data/journal.db"}'},
        }


def opened_target(spec: str, name: str) -> Target:
    """Open a target; messages call its connection by `name`. The caller closes it."""
    from dpone import wiring

    options = {} if places.is_file(spec) else {"connection": name}
    return wiring.open_target(spec, options=options)


def resolved(named: str) -> tuple[str, str]:
    """Spec and public name of a journal or target: a connection's id, or a spec of a file.

    The name enters identities: a connection's id, or the path. Raises `AirflowConnectionInvalid`
    for a server's address: it has no name, and Airflow shows the arguments of its tasks.
    """
    if places.is_spec(named) and places.is_file(named):
        return named, named
    return DponeHook(named).spec, named
