"""A route, opened and joined: what the command line and the Airflow operator run.

Promise: the files of the source are digested while the policy and the drivers are imported, and
everything that was opened is closed. Nothing here decides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from typing import TYPE_CHECKING, NamedTuple, cast

from dpone import routes
from dpone.loading.operations import ALL, Planned, Wanted, followed, operations_of
from dpone.ports.probe import Probe, quiet

if TYPE_CHECKING:
    from dpone.contracts.run_report import RunPlan
    from dpone.loading.again import Reloads
    from dpone.loading.run import Run
    from dpone.ports.guarded import GuardedTarget
    from dpone.ports.journal import Journal
    from dpone.ports.loader import Loader
    from dpone.ports.source import Source
    from dpone.ports.target import Target

Interrupted = Callable[[], bool]


class RouteRun(NamedTuple):
    """An open route with its operations; nothing has been written."""

    route: routes.Route
    operations: list[Planned]
    source: Source
    journal: Journal
    target: Target | GuardedTarget
    loader: Loader
    reloads: Reloads

    def plan(self) -> RunPlan:
        """What a run would do."""
        from dpone.loading.plan import plan_of

        named = (self.route.manifest, self.route.name, self.route.project.environment)
        return plan_of(self.operations, self.journal, self.target, *named, self.reloads)

    def flow(
        self, *, probe: Probe = quiet, take_over: bool = False, interrupted: Interrupted
    ) -> Run:
        """The run itself, which has not begun."""
        from dpone import wiring
        from dpone.loading.run import Run

        return Run(
            self.source,
            wiring.route_committer(self.journal, self.target, probe=probe),
            self.loader,
            obliged=wiring.route_obligations(self.journal, self.target),
            take_over=take_over,
            reloads=self.reloads,
            interrupted=interrupted,
        )


@contextmanager
def opened(
    route: routes.Route,
    wanted: Wanted = ALL,
    *,
    probe: Probe = quiet,
    started: Callable[[], None] = lambda: None,
) -> Iterator[RouteRun]:
    """Open source, journal and target of a route, and say which operations are wanted.

    `started` is called when the source is being read. Raises a `DponeError`.
    """
    if wanted.revision is not None or wanted.again:
        from dpone.loading.again import check_named

        check_named(route.manifest, wanted, route.name)
    with ExitStack() as held:
        source = held.enter_context(closing(routes.route_source(route)))
        source.start()
        started()
        from dpone import wiring

        journal = held.enter_context(closing(wiring.route_journal(route)))
        target = held.enter_context(closing(wiring.route_target(route, probe=probe)))
        loader = wiring.route_loader(route)
        operations = operations_of(
            route.manifest,
            source,
            environment=route.project.environment,
            name=route.name,
            wanted=wanted,
        )
        if wanted.revision is None:
            operations = followed(operations, journal)
        reloads = _reloads(journal, target, route.name, approved=wanted.again)
        yield RouteRun(route, operations, source, journal, target, loader, reloads)


def _reloads(
    journal: Journal, target: Target | GuardedTarget, name: str, *, approved: bool
) -> Reloads:
    """What refuses to add rows twice: it asks journal and fence, or the guard's checkpoints."""
    from dpone import wiring
    from dpone.contracts.fence import Capability
    from dpone.loading import again

    if target.capability is Capability.NONE:
        earlier = again.guarded(wiring.checkpoints(journal))
    else:
        earlier = again.fenced(journal, cast("Target", target))
    return again.Reloads(earlier, name=name, approved=approved)
