"""`@task.dpone`: a task's own write, fenced."""

from __future__ import annotations

import functools
import inspect
import logging
import os
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from typing import Any

from dpone.airflow import arguments as given
from dpone.airflow import attempt as trying
from dpone.airflow import compat
from dpone.airflow.hooks import opened_target, resolved
from dpone.airflow.links import DponeOperationLink
from dpone.contracts.errors_airflow import AirflowArgumentInvalid, AirflowMapKeyMissing

TRANSACTION = "transaction"
JOURNAL_DEFAULT = "dpone_journal"


class DponeDecoratedOperator(compat.DecoratedOperator):
    """Calls the function inside the fenced transaction of a target; see `dpone_task`."""

    custom_operator_name = "@task.dpone"
    template_fields: Sequence[str] = (
        *("target", "journal", "route", "partition", "revision"),
        *("op_args", "op_kwargs"),
    )
    template_fields_renderers = {"op_args": "py", "op_kwargs": "py"}  # noqa: RUF012
    operator_extra_links = (DponeOperationLink(),)
    ui_color = "#d7e8dc"

    def __init__(
        self,
        *,
        target: str,
        journal: str = JOURNAL_DEFAULT,
        route: str | None = None,
        partition: str | Sequence[str] | None = None,
        map_key: str = "",
        revision: int | str = 1,
        take_over: bool | None = None,
        replayable: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.target = target
        self.journal = journal
        self.route = route
        self.partition = partition
        self.map_key = map_key
        self.revision = revision
        self.take_over = take_over
        self.replayable = replayable
        self._given = (route is not None, partition is not None)

    def execute(self, context: Any) -> dict[str, Any]:
        """Write, and return the receipt."""
        log: logging.Logger = self.log
        return trying.run(context, log, lambda: self._write(context, log))

    def _write(self, context: Any, log: logging.Logger) -> dict[str, Any]:
        from dpone import wiring
        from dpone.contracts.airflow_report import receipt_of_outcome
        from dpone.contracts.codec import encode, parse

        attempt = trying.attempt_of(context)
        given.check(attempt.task_id, vars(self), _rules(*self._given))
        journal_spec, journal_name = resolved(self.journal)
        target_spec, target_name = resolved(self.target)
        arguments = self._arguments()
        operation = self._operation(attempt, arguments, target_name)
        with ExitStack() as held:
            opened = wiring.open_journal(journal_spec, connection=journal_name)
            journal = held.enter_context(closing(opened))
            target = held.enter_context(closing(opened_target(target_spec, target_name)))
            outcome = wiring.committer(journal, target).commit(
                operation,
                lambda transaction: self._call(transaction, context),
                take_over=attempt.takes_over(self.take_over),
                replayable=self.replayable,
            )
        trying.told(log, outcome, operation.partition_text())
        trying.hinted(log, [outcome], attempt)
        receipt = dict(parse(encode(receipt_of_outcome(outcome))))
        trying.marked(context, log, self.outlets, receipt, [outcome.operation_id])
        return receipt

    def _arguments(self) -> dict[str, Any]:
        """The function's own arguments by name: what the write stands for."""
        bound = inspect.signature(self.python_callable).bind_partial(
            *self.op_args, **self.op_kwargs
        )
        return {name: given.listed(value) for name, value in bound.arguments.items()}

    def _operation(
        self, attempt: trying.Attempt, arguments: dict[str, Any], target_name: str
    ) -> Any:
        from dpone.contracts.canonical import canonical
        from dpone.contracts.errors import NotCanonical
        from dpone.contracts.identity import Operation

        for name, value in arguments.items():
            try:
                canonical({name: value})
            except NotCanonical as error:
                reason = str(error.fields["reason"])
                raise AirflowArgumentInvalid(
                    argument=name, task=attempt.task_id, reason=reason
                ) from None
        return Operation(
            route=self.route or attempt.name,
            target=target_name,
            partition=self._part(attempt, arguments),
            environment=os.environ.get("DPONE_ENVIRONMENT") or "default",
            revision=given.number_of(self.revision, attempt.task_id) or 1,
            intent={"arguments": arguments},
        )

    def _part(self, attempt: trying.Attempt, arguments: dict[str, Any]) -> dict[str, Any]:
        """What of the route is written: the partition or the run's period, and the map key."""
        part = given.listed(self.partition)
        partition: dict[str, Any] = attempt.period if part is None else {"part": part}
        if not self.map_key:
            if attempt.map_index >= 0:
                raise AirflowMapKeyMissing(task=attempt.task_id)
            return partition
        reason = "it is the map key, and the function is not called with it"
        # Beside the parameters, what the function takes as **kwargs.
        known = {**given.listed(dict(self.op_kwargs)), **arguments}
        if self.map_key in known:
            key = known[self.map_key]
            if not given.names_nothing(key):
                return {**partition, "key": key}
            reason = "it is the map key and names nothing"
        raise AirflowArgumentInvalid(argument=self.map_key, task=attempt.task_id, reason=reason)

    def _call(self, transaction: Any, context: Any) -> Mapping[str, Any] | None:
        """Call the function with its arguments, the transaction and what it asks of the context."""
        shown = self.python_callable
        function = shown.__wrapped__
        signature = inspect.signature(shown)
        known = dict(self.op_kwargs)
        given = signature.bind_partial(*self.op_args).arguments
        for name, parameter in signature.parameters.items():
            if parameter.kind is parameter.VAR_KEYWORD:
                known = {**dict(context.items()), **known}
            elif name not in given and name not in known and name in context:
                known[name] = context[name]
        found = {**signature.bind(*self.op_args, **known).arguments, TRANSACTION: transaction}
        whole = inspect.signature(function)
        ordered = OrderedDict((name, found[name]) for name in whole.parameters if name in found)
        bound = inspect.BoundArguments(whole, ordered)
        try:
            result: Mapping[str, Any] | None = function(*bound.args, **bound.kwargs)
        except SystemExit as error:
            if error.code:
                raise
            # Airflow 2 would call it a success, and the target drops what was written.
            text = f"{_name(function)} ended the process within its write, which is not committed"
            raise compat.AirflowException(text) from None
        return result


def _rules(routed: bool, parted: bool) -> dict[str, given.Rule]:
    return {
        "target": given.a_name,
        "journal": given.a_name,
        "route": given.unless_left_out(given.written(given.a_name), given=routed),
        "partition": given.unless_left_out(given.written(given.labels), given=parted),
        "map_key": given.a_text,
        "take_over": given.optional(given.a_flag),
        "replayable": given.a_flag,
    }


def dpone_task(
    python_callable: Callable[..., Any] | None = None, **kwargs: Any
) -> Callable[..., Any]:
    """Make a function that writes through `transaction` a task that writes once.

    The function has a parameter named `transaction`, writes through it, never commits, and
    returns JSON facts for the receipt, or None. `target` and `journal` are ids of connections, or
    specs of files (`duckdb:<path>`). Who the write is: `route` (by default DAG and task), the
    run's partition key or else its data interval (or `partition`), and of a mapped task the value
    of the argument that `map_key` names. What is written: the arguments; a retry with others is
    refused. `revision` writes again on purpose. `replayable`: the function may be called again in
    the same attempt.

    The XCom is the receipt in the target's fence, contract `dpone.receipt.v1`.
    """
    if python_callable is None:
        return functools.partial(dpone_task, **kwargs)
    if kwargs.pop("multiple_outputs", None):
        name = _name(python_callable)
        raise TypeError(f"{name} of @task.dpone has one output, the receipt: no multiple_outputs")
    task: Callable[..., Any] = compat.task_decorator_factory(
        python_callable=_without_transaction(python_callable),
        multiple_outputs=False,
        decorated_operator_class=DponeDecoratedOperator,
        **kwargs,
    )
    return task


def _without_transaction(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function as Airflow sees it: the transaction is no argument of the task."""
    signature = inspect.signature(function)
    if TRANSACTION not in signature.parameters:
        raise TypeError(f"{_name(function)} of @task.dpone has no parameter 'transaction'")
    if kind := _unfinished(function):
        told = f"{_name(function)} of @task.dpone is {kind}"
        raise TypeError(f"{told}, which writes nothing when it is called")

    @functools.wraps(function)
    def shown(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    kept = [item for name, item in signature.parameters.items() if name != TRANSACTION]
    shown.__signature__ = signature.replace(parameters=kept)  # type: ignore[attr-defined]
    return shown


def _name(function: Any) -> str:
    return getattr(function, "__name__", type(function).__name__)


def _unfinished(function: Callable[..., Any]) -> str:
    """What a function is whose code does not run when it is called; empty for any other."""
    for each in _layers(function):
        if inspect.iscoroutinefunction(each):
            return "a coroutine function"
        if inspect.isgeneratorfunction(each) or inspect.isasyncgenfunction(each):
            return "a generator function"
    return ""


def _layers(function: Any) -> Iterator[Any]:
    """A function and what it is made of: what it wraps, is a part of, or is as an object."""
    seen: list[int] = []
    left = [function]
    while left:
        each = left.pop()
        if id(each) in seen:
            continue
        seen.append(id(each))
        yield each
        yield type(each).__call__
        inner = (getattr(each, name, None) for name in ("__wrapped__", "func"))
        left += [item for item in inner if callable(item)]
