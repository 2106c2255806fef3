"""The operator that loads a route."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dpone.airflow import arguments, compat
from dpone.airflow import attempt as trying
from dpone.airflow.links import DponeOperationLink

# What the DAG leaves out: serialized it is None.
_LEFT_OUT: Any = object()


class DponeRunOperator(compat.BaseOperator):
    """Load a route as `dpone run` does: each part once, however often Airflow tries.

    `manifest`: the route's manifest; a relative path is taken from the folder of the DAG file.
    `partition`: a label or a list of labels; without it every part of the source is loaded, and
    of a route that is cut by an interval only those that end in the run's data interval
    (`data_interval=False`: all of them). One that is given and empty is refused; a run of a
    partitioned asset or timetable names it. `revision` loads again on purpose; `again` as in
    `dpone run --again`. `process`: the route of a pipeline with several. `connections` maps names
    of the route's connections to connections of Airflow, or specs of files. A route has one place:
    with another connection it is the same load, and a target that lacks it counts as one that lost
    it; for several places write several routes. `take_over`: do not wait for the lease of another
    attempt; by default so from the second try on.

    The XCom is the contract `dpone.airflow-run.v1`: the receipts that the target's fence holds.
    """

    template_fields: Sequence[str] = ("manifest", "partition", "revision", "connections")
    template_fields_renderers = {"connections": "json"}  # noqa: RUF012 - as the base class has it
    operator_extra_links = (DponeOperationLink(),)
    ui_color = "#d7e8dc"

    def __init__(
        self,
        *,
        manifest: str | os.PathLike[str],
        partition: str | Sequence[str] | None = _LEFT_OUT,
        revision: int | str | None = None,
        again: bool = False,
        process: str = "",
        data_interval: bool = True,
        connections: Mapping[str, str] | None = _LEFT_OUT,
        take_over: bool | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        # Another task may name it, and then it is not known yet.
        self.manifest = os.fspath(manifest) if isinstance(manifest, os.PathLike) else manifest
        self.partition = None if partition is _LEFT_OUT else partition
        self.revision = revision
        self.again = again
        self.process = process
        self.data_interval = data_interval
        self.connections = None if connections is _LEFT_OUT else connections
        self.take_over = take_over
        # Of a mapped task None is what another task named, and not what the DAG leaves out.
        named = (partition is not _LEFT_OUT, connections is not _LEFT_OUT)
        if not compat.is_mapped(self):
            named = (self.partition is not None, self.connections is not None)
        self._given = named

    def execute(self, context: Any) -> dict[str, Any]:
        """Load, and return the receipts."""
        log: logging.Logger = self.log
        return trying.run(context, log, lambda: self._load(context, log))

    def _load(self, context: Any, log: logging.Logger) -> dict[str, Any]:
        from dpone.airflow import loading

        attempt = trying.attempt_of(context)
        arguments.check(attempt.task_id, vars(self), _rules(*self._given))
        given = loading.Given(
            folder=Path(context["dag"].fileloc).parent,
            manifest=Path(self.manifest),
            labels=_labels(self.partition),
            revision=arguments.number_of(self.revision, attempt.task_id),
            again=self.again,
            process=self.process,
            within=(attempt.start, attempt.end) if self.data_interval else ("", ""),
            partition_key=attempt.partition_key if self.data_interval else "",
            connections=dict(self.connections or {}),
            take_over=attempt.takes_over(self.take_over),
        )
        done = loading.load(given, attempt, log)
        ids = [item["receipt"]["operation_id"] for item in done["operations"]]
        trying.marked(context, log, self.outlets, done, ids)
        return done


def _rules(parted: bool, connected: bool) -> dict[str, arguments.Rule]:
    return {
        "manifest": arguments.a_path,
        "partition": arguments.unless_left_out(arguments.labels, given=parted),
        "again": arguments.a_flag,
        "process": arguments.a_text,
        "data_interval": arguments.a_flag,
        "connections": arguments.unless_left_out(arguments.connections, given=connected),
        "take_over": arguments.optional(arguments.a_flag),
    }


def _labels(partition: str | Sequence[str] | None) -> tuple[str, ...]:
    if partition is None:
        return ()
    return (partition,) if isinstance(partition, str) else tuple(partition)
