"""A call of the command line as one span, its effects as spans inside it, and its counters.

Promise: nothing that goes wrong here is raised, and nothing of an exception is handed on but its
kind: its words may hold data. Without an SDK the API does nothing. Not promised: that a killed
process told anything. Source: the OpenTelemetry API for traces and for metrics.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from types import TracebackType
from typing import Any

from opentelemetry import context, metrics, trace
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from dpone.contracts.effects import Effect
from dpone.contracts.errors import DponeError
from dpone.contracts.measures import Measure, measure_of_command, measures_of
from dpone.ports.probe import Probe

_NAME = "dpone"


class OpenTelemetry:
    """One call of the command line; its span begins here and ends with `ended`.

    `carrier` may hold the trace that the caller is part of, as `traceparent` and `tracestate`.
    """

    def __init__(self, version: str, carrier: Mapping[str, str]) -> None:
        self._tracer: trace.Tracer = trace.NoOpTracer()
        self._meter: metrics.Meter = metrics.NoOpMeter(_NAME)
        self._counters: dict[str, Any] = {}
        self._span: trace.Span = trace.INVALID_SPAN
        # Settings of the SDK are read here, and may name what is not there.
        with suppress(Exception):
            self._meter = metrics.get_meter(_NAME, version)
        with suppress(Exception):
            self._tracer = trace.get_tracer(_NAME, version)
            around = TraceContextTextMapPropagator().extract(carrier)
            self._span = self._tracer.start_span(_NAME, around)
        self._within = trace.set_span_in_context(self._span)

    def watching(self, probe: Probe, /) -> Probe:
        """The probe, with a span around each effect."""

        def watched(effect: Effect, /) -> AbstractContextManager[None]:
            return self._effect(effect, probe)

        return watched

    def reported(self, report: Any, /) -> None:
        """Count what an answer says was done."""
        with suppress(Exception):
            for measure in measures_of(report):
                self._add(measure)

    def ended(self, command: str, exit_code: int, error_code: str, /) -> None:
        """Name and end the span of the call, and count it."""
        with suppress(Exception):
            self._add(measure_of_command(command, exit_code, error_code))
            self._span.update_name(command)
            self._span.set_attribute("process.exit.code", exit_code)
            if error_code:
                self._span.set_attribute("error.type", error_code)
            if exit_code:
                self._span.set_status(trace.StatusCode.ERROR)
            self._span.end()

    @contextmanager
    def _effect(self, effect: Effect, probe: Probe) -> Iterator[None]:
        with _Within(self._tracer, effect.value, self._within), probe(effect):
            yield

    def _add(self, measure: Measure) -> None:
        if measure.name not in self._counters:
            made = self._meter.create_counter(measure.name, unit=measure.unit)
            self._counters[measure.name] = made
        self._counters[measure.name].add(measure.number, measure.attributes)


class _Within:
    """A span for as long as an effect takes; what the effect raises goes on as it is.

    Effects of one thread lie within each other, and those of another thread within the call.
    """

    def __init__(self, tracer: trace.Tracer, name: str, call: context.Context) -> None:
        self._tracer = tracer
        self._name = name
        self._call = call
        self._span: trace.Span = trace.INVALID_SPAN
        self._token: Any = None

    def __enter__(self) -> None:
        with suppress(Exception):
            is_inner = trace.get_current_span() is not trace.INVALID_SPAN
            around = context.get_current() if is_inner else self._call
            self._span = self._tracer.start_span(self._name, around)
            self._token = context.attach(trace.set_span_in_context(self._span, around))

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        with suppress(Exception):
            if kind is not None:
                name = error.code if isinstance(error, DponeError) else kind.__name__
                self._span.set_attribute("error.type", name)
                self._span.set_status(trace.StatusCode.ERROR)
            self._span.end()
            if self._token is not None:
                context.detach(self._token)
