"""The rules of deletion that its decision marks, each one taken out of the production code.

`Rule.cuts` take the rule out. The persistence engine has to find a violation in one of `scenes`, or
the contest with `act` where somebody else is needed; `between`: he acts where a run has died. A
seed that fits nowhere is an error.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final
from unittest import mock

from faultinject import authoring_seeds
from faultinject.authoring_seeds import Cut
from faultinject.deletion_contests import Contest, Interlude, acts_of
from faultinject.deletion_matrix import Row, every_scene
from faultinject.deletion_persistence import Bounds, first_violation
from faultinject.violations import Violated


@dataclass(frozen=True)
class Rule:
    """A rule, what its absence looks like in the code, and where its absence shows."""

    name: str
    clause: str
    cuts: tuple[Cut, ...]
    scenes: tuple[str, ...] = ("again",)
    act: str = ""
    crashes: bool = False
    between: bool = False


@contextmanager
def planted(*cuts: Cut) -> Iterator[None]:
    """Run a block with the cuts in place; they name modules of retention."""
    package = mock.patch.object(authoring_seeds, "PACKAGE", "dpone.retention")
    with package, authoring_seeds.planted(*cuts):
        yield


def _apply(function: str, old: str, new: str = "pass") -> Cut:
    return Cut("apply", f"Applier.{function}", old, new)


def _transact(function: str, old: str, new: str = "pass") -> Cut:
    return Cut("transact", f"Transactions.{function}", old, new)


_SAVE_BEGUN = "self.store.save(receipt, Effect.RETENTION_BEGIN)"
_FREE_LOOK = "if not self.in_trash(transaction):"

RULES: Final = (
    Rule(
        "the receipt after the log",
        "step 16",
        (
            _apply(
                "_delete_all",
                "self._delete(receipt, transaction)",
                "receipt = self._advance(receipt, [*deleted, item.deployment_id], causes)\n"
                "            self._delete(receipt, transaction)",
            ),
        ),
    ),
    Rule(
        "the history after the receipt",
        "step 11",
        (_apply("_begin", _SAVE_BEGUN, f"self.reviewer.save_history(history); {_SAVE_BEGUN}"),),
    ),
    Rule(
        "the history before the first detach",
        "step 11",
        (_apply("_begin", "self.reviewer.save_history(history)"),),
    ),
    Rule(
        "the occurrence before the receipt",
        "step 10",
        (
            _apply(
                "_begin",
                "self._prepare(plan, closes, others)\n    self._close(others, closes)\n"
                "    self.stage",
                "self.stage",
            ),
            _apply("_begin", _SAVE_BEGUN, f"{_SAVE_BEGUN}; self._prepare(plan, closes, others)"),
        ),
    ),
    Rule(
        "control files are replaced whole",
        "receipt replacements",
        (
            Cut(
                "store",
                "put",
                "folder.create_record(temporary, data).close()\n"
                "        folder.replace(temporary, leaf)",
                "folder.look(leaf) and folder.unlink(leaf)\n"
                "        folder.create_record(leaf, data).close()",
            ),
        ),
    ),
    Rule(
        "deletion is recorded before it begins",
        "step 15",
        (_transact("delete", 'transaction = self.wal.move(transaction, "deletion_started")'),),
    ),
    Rule(
        "the log forgets after the commit",
        "step 17",
        (
            _apply(
                "_finish",
                "self.store.save(receipt, Effect.RETENTION_COMMIT)",
                "self.wal.forget(self.wal.live(self.operation_id))\n"
                "    self.store.save(receipt, Effect.RETENTION_COMMIT)",
            ),
        ),
    ),
    Rule(
        "a torn end is cut first",
        "WAL",
        (Cut("wal", "Wal._append", "self._cut(self._log)"),),
        ("torn",),
    ),
    Rule(
        "the activation goes with its deployment",
        "section 3",
        (
            _transact(
                "detach",
                "self._carry(transaction.activation, trash, leaf + _ACTIVATION)",
            ),
        ),
    ),
    Rule(
        "a crash between two renames is finished",
        "section 4",
        (_transact("finish_detach", "sealed = self._look(transaction.activation)", "return"),),
    ),
    Rule(
        "what is in the trash rolls forward",
        "section 4",
        (_apply("_detach", "if is_there or (", "if False and ("),),
    ),
    Rule(
        "what a dead process wrote is made durable",
        "step 2",
        (Cut("desk", "RetentionDesk._tidy", "make_firm(root, self.environment)"),),
        ("resume after a rename",),
    ),
    Rule(
        "temporaries are cleared",
        "section 5",
        (Cut("store", "clear_temporaries", "folder.unlink(name)"),),
        ("tidy",),
    ),
    Rule(
        "trees are settled before an abort",
        "section 2",
        (_apply("_abort", "self.recovery.settle(transaction, forward=False)"),),
        ("abort", "close and restore"),
    ),
    Rule(
        "confirmed outcomes are absorbed before an abort",
        "section 2",
        (_apply("_abort", 'if it.phase == "committed"', "if False"),),
        ("close",),
    ),
    Rule(
        "what is put back is recorded",
        "section 4",
        (_transact("restore", 'self.wal.move(transaction, "restored", reason=reason)'),),
        ("abort",),
    ),
    Rule(
        "moved is recorded before it is put back",
        "section 4",
        (_transact("restore", 'transaction = self.wal.move(transaction, "detached")'),),
        ("close and restore what no record tells",),
    ),
    Rule(
        "an activation that comes back is sealed",
        "section 4",
        (_transact("_seal", "folder.set_mode(leaf, _SEALED)"),),
        ("abort what is active",),
    ),
    Rule(
        "what is sealed again is opened before it is put back",
        "section 6",
        (_transact("restore", "trash.unseal(name)"),),
        ("abort what is sealed again",),
    ),
    Rule(
        "the snapshot before the log is begun anew",
        "WAL",
        (
            Cut(
                "wal",
                "Wal.compact",
                "    try:\n        put(\n            self.root,\n            WAL,",
                "    try:\n        self.__exit__()\n        put(self.root, LOG, b'', effect=Effect."
                "RETENTION_COMPACT, probe=self.probe, nonce=self.nonces())\n"
                "        put(\n            self.root,\n            WAL,",
            ),
        ),
        ("unstick", "close and restore"),
    ),
    Rule(
        "a closed operation leaves its intent behind it",
        "section 5",
        (_apply("_reviewed_plan", "self.wal.intent(self.operation_id)", "None"),),
        ("close", "close and restore"),
    ),
    Rule(
        "what was put back by a dead run is no new candidate",
        "section 5",
        (_apply("_reviewed_plan", "self._put_back(closes)", "frozenset()"),),
        ("close and restore",),
    ),
    Rule(
        "the outcome of a dead run is forgotten by the log",
        "step 7",
        (_apply("run", "self._forget_finished(found)"),),
        ("again", "abort"),
    ),
    Rule(
        "a directory that others may not enter, from the start",
        "section 8",
        (Cut("receipts", "make_private", "root.set_mode(temporary, _PRIVATE)"),),
        ("apply",),
    ),
    # -- with somebody else
    Rule(
        "identity decides, not the name",
        "step 14",
        (
            _transact(
                "detach",
                "if occurrence is None or not self.is_at_its_name(transaction):",
                "if occurrence is None:",
            ),
            _transact("detach", _FREE_LOOK, "if False:"),
        ),
        act="build over",
    ),
    Rule(
        "what was moved is looked at again",
        "step 15",
        (_transact("detach", _FREE_LOOK, "if False:"),),
        act="build over",
    ),
    Rule(
        "a tree is deleted by its identity",
        "section 6",
        (
            _transact("detach", _FREE_LOOK, "if False:"),
            Cut("scrub", "scrub", "or look.identity != identity", "or False"),
        ),
        act="build over",
    ),
    Rule(
        "authority is read again under the lock",
        "section 3",
        (_apply("_same_authority", "signature = self.reviewer.signature()", "return"),),
        act="promote a candidate",
    ),
    Rule(
        "what is built again keeps the activation that it finds",
        "section 4",
        (_transact("finish_detach", "if not self.is_name_free(transaction):", "if False:"),),
        act="build again and promote",
        between=True,
    ),
    Rule(
        "an activation that stays is sealed again",
        "section 4",
        (_transact("finish_detach", "self._seal(transaction)"),),
        act="build again and promote",
        between=True,
    ),
)


def witness(rule: Rule) -> Row:
    """Take a rule out and look for a violation; an empty `rule` when nobody noticed."""
    chosen = every_scene()
    with planted(*rule.cuts):
        if rule.act:
            return _contested(rule)
        for scene in chosen:
            if scene.name in rule.scenes:
                found = first_violation(scene, Bounds(1))
                if found is not None:
                    return Row(rule.name, "weak", found.rule, scene.name, len(found.trail))
    return Row(rule.name, "weak")


def _contested(rule: Rule) -> Row:
    scene = next(it for it in every_scene() if it.name == "apply")
    case = scene.begin()
    act = next(it for it in acts_of(case.disk, case) if it.name == rule.act)
    try:
        kind = Interlude if rule.between else Contest
        kind(scene, act, crashes=rule.crashes).explore()
    except Violated as found:
        return Row(rule.name, "contest", found.rule, act.name, len(found.trail))
    return Row(rule.name, "contest")
