"""The rules of compare-and-replace that its design marks, each one taken out.

`Rule.cuts` take the rule out of the production code. The persistence engine, or the schedules where
two processes are needed, has to find a violation then.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from faultinject.authoring_contests import CONTESTS
from faultinject.authoring_seeds import Cut, planted
from faultinject.authoring_worlds import workloads
from faultinject.persistence import Bounds, first_violation
from faultinject.schedules import explore
from faultinject.violations import Violated


@dataclass(frozen=True)
class Rule:
    """A rule, what its absence looks like in the code, and where its absence shows."""

    name: str
    clause: str
    cuts: tuple[Cut, ...]
    world: str = "replace"
    rivals: bool = True


_SIDE_EARLY = (
    Cut(
        "replace",
        "Replacement._transact",
        "ledger = begin(self.place, journal)",
        "self.folder.link(staged, journal.exchange_name); ledger = begin(self.place, journal)",
    ),
    Cut(
        "replace",
        "Replacement._prepare",
        "self.folder.link(staged, ledger.current.exchange_name)",
    ),
)
_PROOF_LATE = Cut(
    "retire",
    "retire",
    "        proof = held.prove()\n"
    "        if held.look().identity != identity or _digest(held) != digest:\n"
    "            return Retired.DIFFERS\n",
    "        if held.look().identity != identity or _digest(held) != digest:\n"
    "            return Retired.DIFFERS\n"
    "        proof = held.prove()\n",
)

RULES: Final = (
    Rule("the journal before the side file", "2.6", _SIDE_EARLY, rivals=False),
    Rule(
        "prepared is durable before the exchange",
        "2.6",
        (
            Cut(
                "replace",
                "Replacement._stage_by_name",
                "ledger.enter(Phase.PREPARED, Effect.AUTHORING_PREPARE)",
            ),
        ),
        "replace by name",
    ),
    Rule(
        "the journal appears whole",
        "1",
        (
            Cut(
                "record",
                "begin",
                "record = place.folder.stage_record(data)",
                "record = place.folder.create_record(place.journal, data); "
                "return Ledger(place, record, journal)",
            ),
        ),
        rivals=False,
    ),
    Rule("the proof comes before the digest", "2.9", (_PROOF_LATE,)),
    Rule(
        "the proof is kept until the name is gone",
        "2.9",
        (
            Cut(
                "retire",
                "retire",
                "            return _rescue(ledger, held, digest)",
                "            pass",
            ),
        ),
    ),
    Rule(
        "the proof of a writer is heeded",
        "2.9",
        (Cut("retire", "retire", "if not is_free or (", "if ("),),
    ),
    Rule(
        "the digest is read again after the exchange",
        "2.10",
        (
            Cut(
                "recover",
                "_Recovery.side",
                "return verdict if digest and found == digest else Side.OTHER",
                "return verdict",
            ),
            Cut("retire", "retire", " or _digest(held) != digest", ""),
        ),
    ),
    Rule(
        "committed is durable before the side file goes",
        "2.10",
        (Cut("retire", "retire", "            before()", "            pass"),),
        rivals=False,
    ),
    Rule(
        "kept is durable before the move",
        "2.12",
        (Cut("recover", "_Recovery._keep", "self.ledger.phase != Phase.KEPT", "False"),),
    ),
    Rule(
        "our own inode needs the proof too",
        "2.9",
        (
            Cut(
                "recover",
                "_Recovery._discard_ours",
                "became = retire(",
                "self._drop(journal.exchange_name); became = Retired.GONE; "
                "(lambda *_, **__: None)(",
            ),
        ),
    ),
    Rule(
        "identity decides, not bytes",
        "3",
        (
            Cut(
                "recover",
                "_Recovery.side",
                'digest, verdict = known.get(identity, ("", Side.OTHER))',
                "digest, verdict = next("
                '((d, v) for d, v in known.values() if d == found), ("", Side.OTHER))',
            ),
            Cut("retire", "retire", "held.look().identity != identity or ", ""),
        ),
    ),
    Rule(
        "an empty name keeps the earlier bytes",
        "3",
        (
            Cut(
                "recover",
                "_Recovery._keep_earlier",
                "kept = self._keep(target)",
                "return self._commit(target)  # type: ignore",
            ),
        ),
    ),
)

# These need two processes.
MEETING_RULES: Final = (
    Rule(
        "the lock tells the living from the dead",
        "2.2",
        (Cut("record", "_locked", "not record.lock()", "False"),),
        "different bytes",
    ),
    Rule(
        "a journal is locked before it has a name",
        "2.2",
        (
            Cut(
                "record",
                "begin",
                "record = place.folder.stage_record(data)",
                "record = place.folder.stage_record(data); record.inode.lock = None",
            ),
        ),
        "different bytes",
    ),
    Rule(
        "the locked journal still bears its name",
        "2.2",
        (Cut("record", "find", "_still_named(place, record, place.journal)", "True"),),
        "replace and recover a dead one",
    ),
)


def meeting_witness(rule: Rule, *, preemptions: int = 2) -> Violated | None:
    """The violation that the schedules find without the rule."""
    chosen = next(contest for contest in CONTESTS if contest.name == rule.world)
    with planted(*rule.cuts):
        try:
            explore(chosen, preemptions=preemptions)
        except Violated as found:
            return found
    return None


def witness(rule: Rule, *, bounds: Bounds | None = None) -> Violated | None:
    """The violation that the engine finds without the rule."""
    chosen = [world for world in workloads(rivals=rule.rivals) if world.name == rule.world]
    with planted(*rule.cuts):
        return first_violation(chosen[0], bounds or Bounds())
