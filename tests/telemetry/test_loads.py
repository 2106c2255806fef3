"""The spans and the counters of loads, and of calls that are refused."""

from __future__ import annotations

import pytest
from opentelemetry.trace import StatusCode

from dpone.contracts.effects import Effect
from tests.authoring.confined.studio import At
from tests.loading.project import ITEM_ROWS, TARGETS, Project
from tests.telemetry.watched import Watched

COMMAND = ("dpone.command", "dpone run")
DONE = ("dpone.exit_code", "0")
OPERATIONS = "dpone.fencing.operations"


@pytest.mark.parametrize("form", ["json", "text"])
def test_each_operation_is_counted_by_what_became_of_it(
    project: Project, watched: Watched, form: str
) -> None:
    project.route(target=TARGETS["sqlite"])
    for _ in range(3):
        assert project.call("run", "route.yaml", "--format", form).code == 0
    assert [count[1:] for count in watched.counts(OPERATIONS)] == [
        (1, (("dpone.how", "committed"),)),
        (2, (("dpone.how", "replayed"),)),
    ]
    assert [count[1:] for count in watched.counts("dpone.commands")] == [(3, (COMMAND, DONE))]


def test_an_operation_that_failed_is_counted_with_its_code(
    project: Project, watched: Watched
) -> None:
    project.route(target=TARGETS["sqlite"], columns="{id: integer, day: integer}")
    said = project.run()
    (code,) = said.codes
    assert [count[1:] for count in watched.counts(OPERATIONS)] == [
        (1, (("dpone.how", "failed"), ("error.type", code)))
    ]


def test_a_call_is_one_span_and_its_effects_lie_within(project: Project, watched: Watched) -> None:
    project.route(target=TARGETS["sqlite"])
    assert project.run().code == 0
    *effects, call = watched.spans()
    assert (call.name, call.parent, call.status.status_code) == (
        "dpone run",
        None,
        StatusCode.UNSET,
    )
    assert call.attributes == {"process.exit.code": 0}
    known = {effect.value for effect in Effect}
    names = [span.name for span in effects]
    assert set(names) <= known
    assert names.count(Effect.FENCING_INTENT.value) == 1
    assert names.count(Effect.FENCING_COMMIT.value) == 1
    ids = {span.context.span_id for span in (*effects, call) if span.context is not None}
    assert len(ids) == len(effects) + 1
    for span in effects:
        # Of the call itself, or of an effect around it.
        assert span.parent is not None
        assert span.parent.span_id in ids
        assert call.context is not None
        assert span.parent.trace_id == call.context.trace_id
        assert span.attributes == {}


def test_a_call_is_part_of_the_trace_of_its_caller(
    project: Project, watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    trace, parent = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
    monkeypatch.setenv("TRACEPARENT", f"00-{trace}-{parent}-01")
    project.route(target=TARGETS["sqlite"])
    assert project.run().code == 0
    call = watched.spans()[-1]
    assert call.parent is not None
    assert (f"{call.parent.trace_id:032x}", f"{call.parent.span_id:016x}") == (trace, parent)


def test_a_refused_call_tells_its_code_and_none_of_its_words(
    project: Project, watched: Watched
) -> None:
    project.write("route.yaml", "schema: dpone.route.v1\nroute: hunter2\nsecret: hunter2\n")
    said = project.run()
    assert said.code == 2
    assert [count[1:] for count in watched.counts("dpone.commands")] == [
        (1, (COMMAND, ("dpone.exit_code", "2"), ("error.type", said.report["code"])))
    ]
    (call,) = watched.spans()
    assert call.status.status_code is StatusCode.ERROR
    assert call.attributes == {"process.exit.code": 2, "error.type": said.report["code"]}
    assert (call.events, call.status.description) == ((), None)


def test_an_effect_that_fails_tells_its_kind_and_none_of_its_words(
    project: Project, watched: Watched
) -> None:
    def fail() -> None:
        raise RuntimeError("hunter2")

    project.route(target=TARGETS["sqlite"])
    said = project.run(probe=At("fencing.change:before", fail))
    assert said.code != 0
    failed = [span for span in watched.spans()[:-1] if span.status.status_code is StatusCode.ERROR]
    assert Effect.FENCING_CHANGE.value in {span.name for span in failed}
    for span in failed:
        assert span.attributes == {"error.type": "RuntimeError"}
        assert (span.events, span.status.description) == ((), None)


def test_a_misuse_is_a_call_too(project: Project, watched: Watched) -> None:
    assert project.call("run", "--nothing-of-this-name").code == 2
    (count,) = watched.counts("dpone.commands")
    assert dict(count.attributes)["error.type"] == "DPONE_USAGE"


def test_what_watches_may_break_and_the_load_goes_on(
    project: Project, watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every call of the SDK fails; the answer, the exit code and the rows are as without it."""
    broken: list[str] = []

    class Broken:
        def __getattr__(self, name: str) -> object:
            broken.append(name)
            raise RuntimeError("hunter2")

    def given(*_: object) -> Broken:
        return Broken()

    monkeypatch.setattr("opentelemetry.trace.get_tracer", given)
    monkeypatch.setattr("opentelemetry.metrics.get_meter", given)
    project.route(target=TARGETS["sqlite"])
    said = project.run()
    assert (said.code, said.hows, said.err) == (0, ["committed"], "")
    assert project.items("sqlite") == ITEM_ROWS
    assert set(broken) == {"start_span", "create_counter"}
