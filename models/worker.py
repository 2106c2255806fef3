"""What one process does, step by step: a worker, or an operator at the command line.

Every function yields `(label, world)` for one worker. Between two steps anything else may
happen, which is how a pause is modelled; a crash is possible at each of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from models import fence, journal
from models.fence import Unit
from models.journal import Row, Write
from models.rules import Bounds, Rules
from models.world import (
    ASKED,
    CLAIM,
    CLOSE,
    IDLE,
    SEAL_BEGUN,
    SEAL_FAIL,
    SEAL_READY,
    SEAL_REJECTED,
    SEAL_RESOLVE,
    SENT,
    STOPPED,
    Worker,
    World,
    landed,
    moved,
)

Steps = Iterator[tuple[str, World]]

# Where a worker stands when its next step is a journal write: the write, and where it leads.
WRITES: Final[dict[str, tuple[Write, str]]] = {
    "begin": (journal.BEGIN, "ready"),
    "begin-sealed": (journal.BEGIN, SEAL_BEGUN),
    "begin-shown": (journal.BEGIN_SHOWN, IDLE),
    "take-ready": (journal.TAKE_READY, SEAL_READY),
    "take-unknown": (journal.TAKE_UNKNOWN, SEAL_FAIL),
    "take-resolve": (journal.TAKE_UNKNOWN, SEAL_RESOLVE),
    "new-attempt": (journal.NEW_ATTEMPT, SEAL_READY),
    "ready": (journal.FENCE_READY, "start"),
    "start": (journal.START, CLAIM),
    "acknowledge": (journal.ACKNOWLEDGE, IDLE),
    "answer-lost": (journal.ANSWER_LOST, IDLE),
    "shown": (journal.SHOWN, IDLE),
    "fail": (journal.FAIL, IDLE),
    "assert": (journal.ASSERT, IDLE),
    "met": (journal.MET, IDLE),
    "unmet": (journal.UNMET, IDLE),
    "diverge": (journal.DIVERGE, IDLE),
    "clear-mark": (journal.CLEAR_MARK, IDLE),
    "accept": (journal.ACCEPT, IDLE),
    "reload": (journal.RELOAD, IDLE),
}


class Process:
    """The protocol as one process follows it, under given rules and bounds."""

    def __init__(self, rules: Rules, bounds: Bounds) -> None:
        self.rules = rules
        self.bounds = bounds
        self._acts = {
            IDLE: self._start,
            ASKED: self._read,
            SEAL_READY: self._seal,
            SEAL_BEGUN: self._seal,
            SEAL_FAIL: self._seal,
            SEAL_REJECTED: self._seal,
            SEAL_RESOLVE: self._seal,
            CLOSE: self._close,
            CLAIM: self._claim,
            SENT: self._answer,
        }

    def steps(self, world: World, number: int) -> Steps:
        """Yield every next step of one process, its death included."""
        worker = world.workers[number]
        act = self._acts.get(worker.at)
        if act is not None:
            yield from act(world, number, worker)
        else:
            yield from self._write(world, number, worker)
        if worker.at != IDLE:
            yield "crash", self._crashed(world, number, worker)

    def _crashed(self, world: World, number: int, worker: Worker) -> World:
        """Stop the process; what it sent may live on where sessions outlive clients."""
        after = moved(world, number, STOPPED)
        if worker.at == SENT and not self.bounds.sessions_outlive:
            unit = _unit(worker, fence.COMMITTING)
            after = after._replace(target=fence.drop(after.target, unit))
        return after

    # Reading and planning (section 5).

    def _start(self, world: World, number: int, worker: Worker) -> Steps:
        target = world.target
        if target.floor:
            yield "ask:expired", world
        elif not self.rules.ask_after_read:
            asked = Worker(ASKED, 0, 0, target.epoch, target.incarnation, seen=target.kind)
            yield "ask", moved(world, number, asked)
        else:
            seen = Worker(ASKED, 0, 0, target.epoch, target.incarnation, seen=target.kind)
            yield from self._read(world, number, seen)

    def _read(self, world: World, number: int, asked: Worker) -> Steps:
        """Decide what to do about the row, given what the fence was seen to hold."""
        row, committed = world.row, asked.seen == fence.COMMITTED
        epoch, incarnation = asked.epoch, asked.incarnation
        if row is None:
            yield from self._first(world, number, asked)
        elif row.mark in (journal.ACCEPTED, journal.RELOADED):
            yield "answered", moved(world, number, STOPPED)
        elif row.mark == journal.DIVERGED:
            if self.bounds.operator and row.incarnation == incarnation:
                yield "resolve:diverged", moved(world, number, _holding(row, CLOSE))
        elif row.state == journal.COMPLETE:
            if committed:
                yield "replay", moved(world, number, STOPPED)
            else:
                yield self._diverge(world, number, row)
        elif row.state in journal.ACKNOWLEDGED:
            yield from self._oblige(world, number, asked, row)
        elif committed:
            shown = _holding(row, "shown")._replace(incarnation=incarnation)
            yield "ask:committed", moved(world, number, shown)
        elif self.rules.incarnation and row.incarnation != incarnation:
            yield "ask:foreign", moved(world, number, STOPPED)
        else:
            above = max(row.epoch, epoch) if self.rules.epoch_above_fence else row.epoch
            yield from self._take(world, number, row, above + self.rules.fresh_attempt)

    def _first(self, world: World, number: int, asked: Worker) -> Steps:
        if asked.seen == fence.COMMITTED:
            at = "begin-shown"
        elif asked.seen == fence.CLOSED:
            yield "ask:closed", moved(world, number, STOPPED)
            return
        else:
            at = "begin" if asked.seen == fence.ABSENT else "begin-sealed"
        epoch = asked.epoch + 1 if self.rules.epoch_above_fence else 1
        plan = Worker(at, 0, 0, epoch, asked.incarnation)
        yield f"ask:{asked.seen}", moved(world, number, plan)

    def _oblige(self, world: World, number: int, asked: Worker, row: Row) -> Steps:
        """Run the unfinished obligations, or find that the target no longer has the change."""
        held = asked.seen == fence.COMMITTED and asked.incarnation == row.incarnation
        believed = row.mark == journal.ASSERTED and not self.rules.asserted_needs_fence
        if self.rules.fence_before_obligations and not held and not believed:
            yield self._diverge(world, number, row)
            return
        target = world.target
        if target.kind != fence.COMMITTED or target.incarnation != row.incarnation:
            world = world._replace(bad=world.bad or "obligations against an absent fence")
        yield "obligations:done", moved(world, number, _holding(row, "met"))
        yield "obligations:failed", moved(world, number, _holding(row, "unmet"))

    def _diverge(self, world: World, number: int, row: Row) -> tuple[str, World]:
        """Conclude that the target no longer has what the journal says it has."""
        target = world.target
        held = target.kind == fence.COMMITTED and target.incarnation == row.incarnation
        if held and row.mark != journal.ASSERTED:
            world = world._replace(bad=world.bad or "divergence was concluded falsely")
        return "ask:diverged", moved(world, number, _holding(row, "diverge"))

    def _take(self, world: World, number: int, row: Row, epoch: int) -> Steps:
        rules, state = self.rules, row.state
        if state == journal.FAILED_PRE_COMMIT:
            plan = _holding(row, "new-attempt")
        elif state in (journal.PREPARING, journal.PREPARED):
            plan = _holding(row, "take-ready")
        else:
            plan = _holding(row, "take-unknown")
            taken = rules.take_committing if state == journal.COMMITTING else rules.take_unknown
            if not taken:
                yield "ask", moved(world, number, plan._replace(at=SEAL_FAIL))
                return
            if not rules.seal_before_failed:
                yield "ask", moved(world, number, plan._replace(at="fail"))
            if self.bounds.operator and state == journal.COMMIT_UNKNOWN:
                yield from self._resolve(world, number, row, epoch)
        yield "ask", moved(world, number, plan._replace(epoch=epoch))

    def _resolve(self, world: World, number: int, row: Row, epoch: int) -> Steps:
        """Let an operator start to answer a row whose outcome is unknown."""
        if self.rules.resolve_seals:
            plan = _holding(row, "take-resolve")._replace(epoch=epoch)
            yield "resolve:unknown", moved(world, number, plan)
            return
        yield "resolve:committed", moved(world, number, _holding(row, "assert"))
        yield "resolve:not-committed", moved(world, number, _holding(row, "fail"))

    # The target (section 3).

    def _seal(self, world: World, number: int, worker: Worker) -> Steps:
        """Seal the key for oneself, to go on or to conclude."""
        held = worker.epoch, worker.attempt, worker.incarnation
        answer, target = fence.seal(world.target, *held, self.rules)
        if answer == fence.BUSY:
            if worker.at == SEAL_RESOLVE:
                yield "resolve:asserted", moved(world, number, worker._replace(at="assert"))
            elif worker.at == SEAL_FAIL and not self.rules.seal_before_failed:
                yield "seal:busy", moved(world, number, worker._replace(at="fail"))
            else:
                yield "seal:busy", moved(world, number, STOPPED)
            if worker.at == SEAL_REJECTED:
                yield "seal:busy", moved(world, number, worker._replace(at="answer-lost"))
        elif answer == fence.WON:
            at = "ready" if worker.at in (SEAL_READY, SEAL_BEGUN) else "fail"
            after = moved(world, number, worker._replace(at=at))
            yield f"{worker.at}:won", after._replace(target=target)
        elif answer == fence.LOST:
            yield f"{worker.at}:committed", moved(world, number, worker._replace(at="shown"))
        else:
            yield f"seal:{answer}", moved(world, number, STOPPED)
        if self.bounds.lost_seals and self._room(world) and self._may_fail(world):
            target = fence.add(world.target, Unit(fence.SEALING, *held))
            yield "seal:lost", world._replace(target=target, faults=world.faults + 1)

    def _close(self, world: World, number: int, worker: Worker) -> Steps:
        """Answer a diverged row: seal for nobody first; a committed fence overrides."""
        answer, target = fence.close(world.target, worker.incarnation, self.rules)
        if answer == fence.WON:
            closed = world._replace(target=target, closed=True)
            for at in ("accept", "reload"):
                yield "close:won", moved(closed, number, worker._replace(at=at))
        elif answer == fence.LOST:
            yield "close:committed", moved(world, number, worker._replace(at="clear-mark"))
        else:
            yield f"close:{answer}", moved(world, number, STOPPED)

    def _claim(self, world: World, number: int, worker: Worker) -> Steps:
        """Begin the unit; after a granted claim its change is invisible until it lands."""
        held = worker.epoch, worker.attempt, worker.incarnation
        answer = fence.admission(world.target, *held, self.rules)
        room = self._room(world)
        if answer == fence.WON and room:
            sent = worker._replace(at=SENT, incarnation=world.target.incarnation)
            unit = _unit(sent, fence.COMMITTING)
            after = moved(world, number, sent)
            yield "claim:granted", after._replace(target=fence.add(world.target, unit))
        elif answer == fence.LOST:
            yield "claim:already", moved(world, number, worker._replace(at="shown"))
        elif answer == fence.BUSY:
            yield "claim:busy", moved(world, number, worker._replace(at="answer-lost"))
        elif answer != fence.WON:
            yield f"claim:{answer}", moved(world, number, STOPPED)
            if answer != fence.FENCED:
                # Nothing was concluded, and the journal may say so.
                unknown = worker._replace(at="answer-lost")
                yield f"claim:{answer}", moved(world, number, unknown)
        if self.bounds.lost_requests and room and self._may_fail(world):
            target = fence.add(world.target, _unit(worker, fence.FLYING))
            after = moved(world, number, worker._replace(at="answer-lost"))
            yield "claim:lost", after._replace(target=target, faults=world.faults + 1)

    def _answer(self, world: World, number: int, worker: Worker) -> Steps:
        """Receive the answer to COMMIT: a receipt, a rejection, or none."""
        unit = _unit(worker, fence.COMMITTING)
        done = moved(world, number, worker._replace(at="acknowledge"))
        yield "commit:receipt", landed(done, unit)
        at = SEAL_REJECTED if self.rules.seal_before_failed else "fail"
        gone = moved(world, number, worker._replace(at=at))
        yield "commit:rejected", gone._replace(target=fence.drop(world.target, unit))
        if self.bounds.lost_commits:
            lost = moved(world, number, worker._replace(at="answer-lost"))
            yield "commit:lost", lost
            if not self.bounds.sessions_outlive:
                yield "commit:landed-lost", landed(lost, unit)

    def _room(self, world: World) -> bool:
        return len(world.target.units) < self.bounds.units

    def _may_fail(self, world: World) -> bool:
        return world.faults < self.bounds.faults

    # The journal.

    def _write(self, world: World, number: int, worker: Worker) -> Steps:
        """Write the journal by compare-and-set, or settle a write whose answer was lost."""
        write = WRITES[worker.at][0]
        row = world.row
        if worker.at in ("ready", "start") and not worker.lost:
            yield "abandon", moved(world, number, worker._replace(at=SEAL_FAIL))
        attempt = self._identity(world, worker, write)
        if worker.lost:
            yield from self._reread(world, number, worker, attempt)
            return
        if not journal.matches(row, worker.version, worker.attempt, self.rules):
            yield "cas:refused", moved(world, number, STOPPED)
        elif attempt <= self.bounds.attempts and worker.version < self.bounds.versions:
            yield from self._apply(world, number, worker, attempt)

    def _reread(self, world: World, number: int, worker: Worker, attempt: int) -> Steps:
        """Settle a write whose answer was lost by reading the row."""
        write, then = WRITES[worker.at]
        row = world.row
        if row is not None and journal.applied(row, write, worker.version, attempt, self.rules):
            after = _holding(row, then) if then != IDLE else STOPPED
            if row.version == worker.version or not journal.holds(row, write):
                world = world._replace(bad=world.bad or "a write was reported that is not there")
            yield "reread:applied", moved(world, number, after)
        elif journal.matches(row, worker.version, worker.attempt, self.rules):
            yield "reread:not-applied", moved(world, number, worker._replace(lost=False))
        else:
            yield "reread:lost-ownership", moved(world, number, STOPPED)

    def _apply(self, world: World, number: int, worker: Worker, attempt: int) -> Steps:
        """Yield the write with its answer, with the answer lost, and lost altogether."""
        write, then = WRITES[worker.at]
        world = world._replace(bad=world.bad or self._breach(world, worker, write))
        row = journal.written(world.row, write, attempt, worker.epoch, worker.incarnation)
        after = Worker(then, row.version, attempt, worker.epoch, worker.incarnation)
        issued = max(world.issued, attempt)
        done = moved(world, number, after if then != IDLE else STOPPED)
        yield journal.label(world.row, write), done._replace(row=row, issued=issued)
        if self.bounds.lost_writes and self._may_fail(world):
            fresh = attempt if write.fresh else 0
            waiting = moved(world, number, worker._replace(lost=True, fresh=fresh))
            waiting = waiting._replace(issued=issued, faults=world.faults + 1)
            yield "write:applied-lost", waiting._replace(row=row)
            yield "write:dropped", waiting

    def _breach(self, world: World, worker: Worker, write: Write) -> str:
        """Name what is wrong about a write, as only an outside observer can tell."""
        row = world.row
        if row is None:
            return ""
        if row.state == journal.COMPLETE and write.state:
            return "COMPLETE was left"
        if row.mark in (journal.ACCEPTED, journal.RELOADED):
            return "an operator's answer was overwritten"
        if self.bounds.watch_ownership and row.attempt != worker.attempt:
            return "written without ownership"
        return ""

    def _identity(self, world: World, worker: Worker, write: Write) -> int:
        """Return the attempt_id under which a write is made."""
        if not write.fresh:
            return worker.attempt
        if not self.rules.fresh_attempt and worker.attempt:
            return worker.attempt
        return worker.fresh or world.issued + 1


def _unit(worker: Worker, stage: int) -> Unit:
    return Unit(stage, worker.epoch, worker.attempt, worker.incarnation)


def _holding(row: Row, at: str) -> Worker:
    """Return a process that has read the row and plans a step on it."""
    return Worker(at, row.version, row.attempt, row.epoch, row.incarnation)
