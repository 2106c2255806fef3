"""The fence's decisions, exhaustively over small epochs, and by a solver over all integers."""

from __future__ import annotations

import itertools
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from dpone.contracts.errors import ContractInvalid
from dpone.contracts.fence import (
    Absent,
    Already,
    Committed,
    Fenced,
    FenceKind,
    Receipt,
    Sealed,
    Unit,
    Unknown,
)
from dpone.contracts.fence_rules import (
    BROKEN,
    CLAIMED,
    RESULT_BYTES_MAX,
    FenceRow,
    Write,
    claim,
    receipt_of,
    row_of,
    seal,
    verdict_of,
)
from tests.contracts import kernel

EPOCHS = range(1, 5)
ATTEMPTS = range(3)
KINDS = {
    kernel.SEALED: FenceKind.SEALED,
    kernel.COMMITTED: FenceKind.COMMITTED,
    kernel.CLAIMED: CLAIMED,
}
ROOT = Path(__file__).resolve().parents[2]
CASES = [
    (kind, row_epoch, row_attempt, epoch, attempt)
    for kind in range(4)
    for row_epoch, row_attempt, epoch, attempt in itertools.product(
        EPOCHS, ATTEMPTS, EPOCHS, ATTEMPTS
    )
]


def unit(epoch: int, attempt: int) -> Unit:
    return Unit(
        operation_id="o", epoch=epoch, attempt_id=str(attempt), intent_digest="i", incarnation="n"
    )


def row(kind: int, epoch: int, attempt: int) -> FenceRow | None:
    if kind == kernel.ABSENT:
        return None
    return row_of("o", KINDS[kind], epoch, str(attempt), "i", '{"rows":1}')


def test_claim_is_the_kernel() -> None:
    for kind, row_epoch, row_attempt, epoch, attempt in CASES:
        decided = claim(row(kind, row_epoch, row_attempt), unit(epoch, attempt))
        expected = kernel.claim(kind, row_epoch, row_attempt, epoch, attempt)
        if expected == kernel.WRITE:
            assert decided is (Write.INSERT if kind == kernel.ABSENT else Write.UPDATE)
        elif expected == kernel.ALREADY:
            assert isinstance(decided, Already)
            assert decided.receipt.epoch == row_epoch
        else:
            assert decided == Fenced(0 if kind == kernel.ABSENT else row_epoch)


def test_seal_is_the_kernel() -> None:
    for kind, row_epoch, row_attempt, epoch, attempt in CASES:
        decided = seal(row(kind, row_epoch, row_attempt), unit(epoch, attempt))
        expected = kernel.seal(kind, row_epoch, row_attempt, epoch, attempt)
        if expected == kernel.WRITE:
            assert decided is (Write.INSERT if kind == kernel.ABSENT else Write.UPDATE)
        elif expected == kernel.ALREADY:
            assert isinstance(decided, Committed)
            assert decided.receipt.attempt_id == str(row_attempt)
        elif expected == kernel.BROKEN:
            assert decided == BROKEN
        else:
            assert decided == Sealed(row_epoch, str(row_attempt))


def test_a_row_says_what_it_is() -> None:
    assert verdict_of(None) == Absent()
    assert verdict_of(row(kernel.SEALED, 3, 2)) == Sealed(3, "2")
    committed = verdict_of(row(kernel.COMMITTED, 3, 2))
    assert isinstance(committed, Committed)
    assert committed.receipt.result == {"rows": 1}
    # A claim that others can see means that a change ended the transaction: no answer at all.
    broken = verdict_of(row(kernel.CLAIMED, 3, 2))
    assert isinstance(broken, Unknown)
    assert broken.held


def test_nobody_wins_over_a_visible_claim() -> None:
    for epoch, attempt in itertools.product(EPOCHS, ATTEMPTS):
        decided = seal(row(kernel.CLAIMED, 2, 1), unit(epoch, attempt))
        assert isinstance(decided, Unknown)
        assert decided.held


def test_a_shortened_row_still_refuses() -> None:
    short = row_of("o", FenceKind.COMMITTED, 3, "2", "", "")
    receipt = Receipt(operation_id="o", epoch=3, attempt_id="2", intent_digest="", shortened=True)
    assert claim(short, unit(4, 0)) == Already(receipt)
    assert seal(short, unit(4, 0)) == Committed(receipt)


def test_a_receipt_holds_what_the_change_reported() -> None:
    assert receipt_of(unit(1, 1), {"rows": 3}).result == {"rows": 3}
    assert receipt_of(unit(1, 1), None).result == {}
    assert not receipt_of(unit(1, 1), None).shortened


@pytest.mark.parametrize(
    "result", [{"x": 0.5}, {"x": 10**40}, {"x": "y" * RESULT_BYTES_MAX}, {"x": float("inf")}]
)
def test_a_receipt_that_could_not_be_read_back_is_refused(result: dict[str, Any]) -> None:
    with pytest.raises(ContractInvalid):
        receipt_of(unit(1, 1), result)


FUNCTIONS = {"claim": 5, "seal": 4, "one_attempt_is_admitted": 1, "epoch_after": 2}


@pytest.mark.slow
@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_solver_confirms_the_kernel_for_all_integers(function: str) -> None:
    command = [sys.executable, "-m", "crosshair", "check", "--report_all"]
    command += ["--per_condition_timeout", "30", f"tests.contracts.kernel.{function}"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=110)
    lines = done.stdout.splitlines()
    # The exit code says nothing: an unconfirmed condition ends with 0 as well.
    assert [line for line in lines if "Confirmed" not in line] == []
    assert len(lines) >= 1, done.stderr


def test_the_solver_is_not_blind(tmp_path: Path) -> None:
    source = (ROOT / "tests/contracts/kernel.py").read_text()
    broken = source.replace("row_epoch == epoch and row_attempt == attempt:", "row_epoch == epoch:")
    assert broken != source
    (tmp_path / "broken_kernel.py").write_text(broken)
    command = [sys.executable, "-m", "crosshair", "check", "--report_all"]
    command += ["--per_condition_timeout", "30", "broken_kernel.claim"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=110)
    assert "false when calling" in done.stdout, done.stdout + done.stderr
