"""The rules of publishing several files, each one taken out of the production code.

`Rule.where` says who has to notice: `crashes` (the persistence engine, undisturbed), `rivals` (the
same with other programs at their files' steps), `denials` (calls that fail), `answers` (only
those whose answer is lost) or `winner` (calls that fail when somebody has just won the root).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from faultinject import publishing_denials as denials
from faultinject.authoring_seeds import Cut, planted
from faultinject.publishing_search import Bounds, Workload, first_violation
from faultinject.publishing_truth import Rival
from faultinject.publishing_worlds import PLAN, rivals, workloads
from faultinject.violations import Violated


@dataclass(frozen=True)
class Rule:
    """A rule, what its absence looks like in the code, and where its absence shows.

    `acts`: those of rivals that are enough, as `<name> <path>`; empty for all of them.
    """

    name: str
    cuts: tuple[Cut, ...]
    world: str = "publish"
    where: str = "crashes"
    acts: str = ""


_DURABLE = "        self.receipt = self._receipt(plan, nonce)\n        self.receipt.place.sync()\n"
_NOTHING = "        pass\n"

RULES: Final = (
    Rule(
        "new files before the root",
        (
            Cut(
                "publish",
                "Publisher.publish",
                "self._create(plan, work)",
                "self._activate(plan, work); self._create(plan, work)",
            ),
        ),
    ),
    Rule(
        "new files in the plan's order",
        (
            Cut(
                "publish",
                "Publisher._create",
                "(*plan.fragments, *plan.edits)",
                "reversed((*plan.fragments, *plan.edits))",
            ),
        ),
    ),
    Rule(
        "all is looked at again before the root",
        (Cut("publish", "Publisher.publish", "self._revalidate(plan, work)"),),
        where="rivals",
    ),
    Rule(
        "what was there is looked at again before the root",
        (
            Cut(
                "publish",
                "Publisher._revalidate",
                "(*plan.fragments, *plan.edits)",
                "plan.fragments",
            ),
        ),
        "publish and watch",
        "rivals",
    ),
    Rule(
        "a new file is known by identity, not by bytes",
        (
            Cut(
                "publish",
                "Publisher._revalidate",
                "is_same = look.identity == entry.identity",
                "pass",
            ),
        ),
        where="rivals",
    ),
    Rule(
        "a compensation that fails stops no other",
        (Cut("undo", "Undo._attempt", "        step()", "        self.issues or step()"),),
        where="winner",
    ),
    Rule(
        "compensations run in reverse",
        (
            Cut(
                "undo",
                "Undo._withdraw",
                "reversed(receipt.entries)",
                "receipt.entries",
            ),
        ),
        where="rivals",
    ),
    Rule(
        "folders go in reverse",
        (Cut("undo", "Undo.compensate", "reversed(new.folders)", "new.folders"),),
        where="rivals",
    ),
    Rule(
        "a root in force with cleanup pending keeps its files",
        (
            Cut(
                "publish",
                "Publisher._replace",
                "if not outcome.committed:",
                "if not outcome.committed or outcome.cleanup_required:",
            ),
        ),
        where="denials",
    ),
    Rule(
        "a new root that may be in force is not taken back",
        (Cut("publish", "Publisher._undone", "if not is_unknown:", "if True:"),),
        "publish a new root",
        "denials",
    ),
    Rule(
        "receipts outlive the process",
        (Cut("fragments", "Fragments.prepare", _DURABLE, _NOTHING),),
    ),
    Rule(
        "the receipt before the first name",
        (
            Cut("fragments", "Fragments.prepare", _DURABLE, _NOTHING),
            Cut(
                "publish",
                "Publisher._create",
                "            self._name(new, work)",
                "            self._name(new, work)\n"
                "    if work.new.news:\n"
                "        nonce = work.new.news[0].entry.side[12:44]\n"
                "        work.new.receipt = work.new._receipt(plan, nonce)\n"
                "        work.new.receipt.place.sync()",
            ),
        ),
    ),
    Rule(
        "identities are durable before a file has its name",
        (
            Cut(
                "receipts",
                "OpenReceipt.complete",
                "self.record.patch(RECEIPT_PHASE_OFFSET + 1, data[RECEIPT_PHASE_OFFSET + 1 :])",
            ),
        ),
        "publish by name",
    ),
    Rule(
        "files are complete before the receipt says so",
        (
            Cut(
                "receipts",
                "OpenReceipt.complete",
                "self.record.patch(RECEIPT_PHASE_OFFSET + 1, data[RECEIPT_PHASE_OFFSET + 1 :])",
                "self.record.patch(RECEIPT_PHASE_OFFSET, data[RECEIPT_PHASE_OFFSET:][:1]); "
                "self.record.patch(RECEIPT_PHASE_OFFSET + 1, data[RECEIPT_PHASE_OFFSET + 1 :])",
            ),
        ),
        "publish by name",
    ),
    Rule(
        "the receipt stays until the root is durable",
        (Cut("publish", "Publisher._finished", "and not is_open", ""),),
        where="denials",
    ),
    Rule(
        "folders on the way are durable, whoever made them",
        (
            Cut(
                "fragments",
                "Fragments._make_folders",
                "Place(folder, part, self.probe).sync()",
                "made in self.folders and Place(folder, part, self.probe).sync()",
            ),
        ),
        "publish what is there",
    ),
    Rule(
        "what a dead run left is durable before it is judged",
        (Cut("undo", "Undo._settle_names", "place.sync()"),),
        "publish a new root",
    ),
    Rule(
        "what an earlier recovery did is durable before the receipt goes",
        (Cut("undo", "Undo._settle_names", "place.sync()"),),
    ),
    Rule(
        "a side file that somebody wrote to is kept",
        (Cut("undo", "Undo._drop_side", "phase == 0 or _is_entry(place, entry)", "True"),),
        "publish by name",
        "rivals",
        "write parts/first.yaml",
    ),
    Rule(
        "side files go whatever the root shows",
        (
            Cut(
                "undo",
                "Undo.conclude",
                "self._attempt(entry.path, partial(self._drop_side, entry, receipt.phase))",
            ),
        ),
        "publish by name",
        "rivals",
        "save pipeline.yaml",
    ),
    Rule(
        "what is kept while concluding is told",
        (
            Cut(
                "publish",
                "Publisher.conclude",
                "Concluded(work.prior, decided)",
                "Concluded((), decided)",
            ),
        ),
        "publish unproven",
    ),
    Rule(
        "a receipt that could not be synced is withdrawn",
        (
            Cut(
                "fragments",
                "Fragments.prepare",
                _DURABLE,
                "        found = self._receipt(plan, nonce)\n"
                "        found.place.sync()\n"
                "        self.receipt = found\n",
            ),
        ),
        where="denials",
    ),
    Rule(
        "a receipt whose answer was lost is known",
        (Cut("receipts", "_named", "not is_named(place, name, record, error)", "True"),),
        where="answers",
    ),
    Rule(
        "a journal whose answer was lost is known",
        (Cut("record", "begin", "not is_named(place, place.journal, record, error)", "True"),),
        where="answers",
    ),
    Rule(
        "a name whose answer was lost is known",
        (
            Cut(
                "fragments",
                "Fragments.name",
                "not is_named(new.place, new.place.leaf, new.entry.identity, error)",
                "True",
            ),
        ),
        "publish a new root",
        "answers",
    ),
    Rule(
        "a name that could not be synced is told",
        (
            Cut(
                "publish",
                "Publisher._name",
                "    finally:\n",
                "    except ZeroDivisionError:\n        pass\n    else:\n",
            ),
        ),
        "publish a new root",
        "denials",
    ),
    Rule(
        "a removal that is on its way is told",
        (
            Cut(
                "undo",
                "Undo._remove",
                'self._tell(entry.path, "failed", outcome.reason, name)',
            ),
        ),
        where="winner",
    ),
    Rule(
        "what is shared is never taken back",
        (
            Cut(
                "undo",
                "Undo._withdraw",
                "self._leave if entry.shared else self._remove",
                "self._remove",
            ),
        ),
        "publish what is shared",
        "winner",
    ),
    Rule(
        "a rehearsal is cleared durably before its journal goes",
        (Cut("record", "Ledger.close", "is_found or self.rehearsed", "is_found"),),
        "publish uncertified",
        "denials",
    ),
)

# Somebody saves the root when everything but its exchange is done.
WINNER: Final = next(rival for rival in rivals(PLAN) if rival.path == PLAN.root.path)


def witness(rule: Rule) -> Violated | None:
    """The violation that is found without the rule."""
    raced = rule.where == "rivals"
    world = next(each for each in workloads(raced=raced) if each.name == rule.world)
    with planted(*rule.cuts):
        if rule.where in ("denials", "answers", "winner"):
            lates = (True,) if rule.where == "answers" else (False, True)
            return denied_violation(world, WINNER if rule.where == "winner" else None, lates)
        if raced:
            chosen = tuple(r for r in world.rivals if rule.acts in ("", f"{r.name} {r.path}"))
            return first_violation(replace(world, rivals=chosen), Bounds(depth=1, near=True))
        return first_violation(world, Bounds())


def denied_violation(
    world: Workload, winner: Rival | None, lates: tuple[bool, ...] = (False, True)
) -> Violated | None:
    """The first violation under denials, or None when the world holds."""
    try:
        for _ in denials.explore(world, winner, lates=lates):
            continue
    except Violated as found:
        return found
    return None
