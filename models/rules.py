"""The rules of the fencing protocol, each as a switch that a test can leave out.

The defaults are the protocol. A rule that is left out must make some explorer run end in a
counterexample; otherwise either the rule is superfluous or the model is blind.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Rules:
    """What the protocol demands; every field is True in the protocol itself."""

    # Journal.
    cas_version: bool = True  # Compare-and-set compares the version.
    cas_attempt: bool = True  # Compare-and-set compares the attempt_id.
    lost_answer_version: bool = True  # A lost answer is applied only if the version is equal,
    lost_answer_state: bool = True  # and the state,
    lost_answer_attempt: bool = True  # and the attempt_id.
    adopt: bool = True  # A restored journal gets new versions and void attempt_ids.
    # Seal.
    seal_contends: bool = True  # A seal waits for a claim in flight, or times out.
    seal_loses_to_commit: bool = True  # A committed key is never sealed.
    seal_never_lowers: bool = True  # A lower epoch does not replace a higher one.
    seal_keeps_equal: bool = True  # Another attempt's equal seal is not replaced.
    # Commit.
    commit_already: bool = True  # A committed key is not changed again.
    commit_fenced: bool = True  # A key sealed for another attempt is not changed.
    claim_first: bool = True  # The key is written before the change, not merely looked at.
    incarnation: bool = True  # Claim and seal refuse another incarnation.
    # Policy.
    take_committing: bool = True  # COMMITTING is taken over before it is sealed.
    take_unknown: bool = True  # COMMIT_UNKNOWN is taken over before it is sealed.
    seal_before_failed: bool = True  # FAILED_PRE_COMMIT only after a won seal.
    fresh_attempt: bool = True  # A takeover has its own attempt_id and a higher epoch.
    epoch_above_fence: bool = True  # A new epoch is above the fence's, not only the journal's.
    fence_before_obligations: bool = True  # Obligations need a committed fence, same incarnation.
    ask_after_read: bool = True  # Divergence is concluded from an ask made after the read.
    # Operators and retention.
    resolve_seals: bool = True  # `resolve` asks and seals before it believes anybody.
    answer_seals: bool = True  # `accept-loss` and `reload` ask and seal first, too.
    asserted_needs_fence: bool = True  # An operator's word does not replace the fence.
    final_seal: bool = True  # The seal of `accept-loss` and `reload` admits nobody, ever.
    prune_keeps_fence: bool = True  # Pruning does not delete fence rows.
    floor_in_unit: bool = True  # Seal and claim read the floor inside their atomic unit.
    floor_contends: bool = True  # That read conflicts with raising the floor.
    drained_restore: bool = True  # An unseen restore happens only when no worker runs.


@dataclass(frozen=True)
class Bounds:
    """How much of each thing one exploration allows; crashes and pauses are never bounded."""

    workers: int = 2
    attempts: int = 3
    versions: int = 99  # Matters where worlds are not reduced to canonical ones.
    units: int = 2
    faults: int = 3  # In total, of the kinds marked below by "counted".
    journal_losses: bool = True  # Counted.
    journal_restores: bool = True  # Counted; at most one.
    target_restores: bool = True  # Counted; at most one, seen or unseen.
    unseen_restores: bool = True  # Counted.
    lost_writes: bool = True  # Counted.
    lost_seals: bool = True  # Counted.
    lost_requests: bool = True  # Counted: a whole unit on its way without its client.
    lost_commits: bool = True
    sessions_outlive: bool = True
    operator: bool = True
    prune: bool = True
    floor: bool = True  # Counted.
    watch_ownership: bool = True  # Whether writing without ownership alone is a violation.
