"""An SDK of OpenTelemetry that keeps in memory what a call of the command line tells it."""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import NamedTuple

import pytest
from opentelemetry import metrics, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader, NumberDataPoint
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

Attributes = tuple[tuple[str, object], ...]


class Count(NamedTuple):
    """One point of a counter, with its attributes in the order of their names."""

    name: str
    number: float
    attributes: Attributes


def _sorted(attributes: Mapping[str, object]) -> Attributes:
    return tuple((name, attributes[name]) for name in sorted(attributes))


class Watched:
    """What was told, by everything that was called since."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._spans = InMemorySpanExporter()
        self._reader = InMemoryMetricReader()
        self._tracers = TracerProvider(shutdown_on_exit=False)
        self._tracers.add_span_processor(SimpleSpanProcessor(self._spans))
        self._meters = MeterProvider([self._reader], shutdown_on_exit=False)
        monkeypatch.setenv("DPONE_TELEMETRY", "opentelemetry")
        # The process's own provider can be set once only; tests are many.
        monkeypatch.setattr(trace, "get_tracer", self._tracers.get_tracer)
        monkeypatch.setattr(metrics, "get_meter", self._meters.get_meter)

    def __enter__(self) -> Watched:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._tracers.shutdown()
        self._meters.shutdown()

    def spans(self) -> list[ReadableSpan]:
        """The spans that have ended, the first to end first."""
        return list(self._spans.get_finished_spans())

    def counts(self, name: str) -> list[Count]:
        """The points of one counter, sorted."""
        data = self._reader.get_metrics_data()
        found = [
            Count(metric.name, point.value, _sorted(point.attributes or {}))
            for resource in (data.resource_metrics if data is not None else ())
            for scope in resource.scope_metrics
            for metric in scope.metrics
            for point in metric.data.data_points
            if isinstance(point, NumberDataPoint)
        ]
        return sorted(count for count in found if count.name == name)
