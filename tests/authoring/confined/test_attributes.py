"""Mode, owner and labels that a person changes while a file is replaced are never lost unsaid."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from dpone.adapters.posix.files import PosixFolder
from dpone.contracts.authoring import Status, sha256_of
from dpone.contracts.effects import Effect
from dpone.ports.probe import Probe
from faultinject.writing import NEW, OLD, _refused
from tests.authoring.confined.studio import JOURNAL, At, Single

LABEL = "user.review"


def meeting(act: Callable[[], None]) -> Probe:
    """Somebody acts right before the exchange, and the process dies right after it."""
    before, after = At("authoring.exchange:before", act), At("authoring.exchange:after", die)

    @contextmanager
    def probe(effect: Effect, /) -> Iterator[None]:
        with after(effect), before(effect):
            yield

    return probe


class Died(BaseException):
    """As a kill, within this process."""


def die() -> None:
    raise Died


def has_labels(folder: Path) -> bool:
    probe = folder / "probe"
    probe.write_bytes(b"")
    try:
        os.setxattr(probe, LABEL, b"yes")
    except OSError:
        return False
    finally:
        probe.unlink()
    return True


def chmod(path: Path) -> None:
    path.chmod(0o600)


def label(path: Path) -> None:
    os.setxattr(path, LABEL, b"yes")


def unlabel(path: Path) -> None:
    os.removexattr(path, LABEL)


ACTS: dict[str, Callable[[Path], None]] = {"mode": chmod, "label": label, "label gone": unlabel}


def ready(single: Single, act: str, monkeypatch: pytest.MonkeyPatch, *, is_named: bool) -> None:
    if "label" in act and not has_labels(single.root):
        pytest.skip("no extended attributes here")
    if act == "label gone":
        label(single.path)
    single.path.chmod(0o644)
    if is_named:
        monkeypatch.setattr(PosixFolder, "_nameless", _refused)


def shows(path: Path, act: str) -> bool:
    """Whether a file has what the person gave it."""
    if act == "mode":
        return stat.S_IMODE(path.stat().st_mode) == 0o600
    return (LABEL in os.listxattr(path)) is (act == "label")


@pytest.mark.parametrize("act", ACTS)
@pytest.mark.parametrize(
    ("point", "is_named"),
    [
        ("authoring.record:after", False),
        ("authoring.exchange:before", False),
        # Here the new file is made after the record, with what the old one has by then.
        ("authoring.exchange:before", True),
    ],
)
def test_what_was_changed_before_the_exchange_is_a_changed_source(
    single: Single, point: str, act: str, is_named: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    ready(single, act, monkeypatch, is_named=is_named)
    outcome = single.replace(probe=At(point, lambda: ACTS[act](single.path)))
    assert (outcome.status, outcome.reason) == (Status.ROLLED_BACK, "source_changed")
    assert single.shown == OLD
    assert shows(single.path, act)
    assert single.names == {"f.yaml"}
    # The next one carries it over.
    assert single.replace().committed
    assert shows(single.path, act)


@pytest.mark.parametrize("is_named", [False, True])
@pytest.mark.parametrize("act", ACTS)
@pytest.mark.parametrize("died", ["authoring.exchange:after", "authoring.commit:after"])
def test_a_dead_run_s_recovery_keeps_the_file_that_has_them(
    single: Single, died: str, act: str, is_named: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    ready(single, act, monkeypatch, is_named=is_named)
    if died == "authoring.commit:after":
        # Somebody who has the earlier file open changes it after its name was exchanged.
        held = os.open(single.path, os.O_RDONLY)
        with pytest.raises(Died):
            single.replace(probe=At(died, die))
        ACTS[act](Path(f"/proc/self/fd/{held}"))
        os.close(held)
    else:
        with pytest.raises(Died):
            single.replace(probe=meeting(lambda: ACTS[act](single.path)))
    found = single.confined().recover_file_transaction("f.yaml")
    assert (found.status, found.reason) == (Status.COMMITTED, "committed")
    assert single.shown == NEW
    assert found.recovery_name is not None
    kept = single.root / found.recovery_name
    assert kept.read_bytes() == OLD
    assert shows(kept, act)
    assert single.names == {"f.yaml", found.recovery_name}
    assert not single.confined().recover_file_transaction("f.yaml").found


@pytest.mark.parametrize("act", ACTS)
def test_what_changes_after_the_commit_is_kept_and_told(
    single: Single, act: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ready(single, act, monkeypatch, is_named=False)
    held = os.open(single.path, os.O_RDONLY)
    earlier = Path(f"/proc/self/fd/{held}")
    outcome = single.replace(probe=At("authoring.commit:after", lambda: ACTS[act](earlier)))
    os.close(held)
    assert (outcome.status, outcome.reason) == (Status.COMMITTED, "committed_earlier_bytes_kept")
    assert outcome.recovery_name is not None
    assert shows(single.root / outcome.recovery_name, act)
    assert single.shown == NEW


@pytest.mark.parametrize("mode", [0o600, 0o644])
def test_what_an_earlier_release_did_not_carry_over_is_kept(single: Single, mode: int) -> None:
    side = ".f.yaml.dpone-cas-0123456789abcdef"
    value = {
        "phase": "prepared",
        "schema": "dpone.confined-file-transaction",
        "version": 1,
        "target_name": "f.yaml",
        "exchange_name": side,
        "expected_sha256": sha256_of(OLD),
        "desired_sha256": sha256_of(NEW),
    }
    (single.root / JOURNAL).write_text(json.dumps(value))
    (single.root / side).write_bytes(OLD)
    (single.root / side).chmod(mode)
    single.path.write_bytes(NEW)
    single.path.chmod(0o644)
    found = single.confined().recover_file_transaction("f.yaml")
    assert found.status is Status.COMMITTED
    assert (found.recovery_name is not None) is (mode == 0o600)
    assert single.names == {"f.yaml", *([found.recovery_name] if found.recovery_name else [])}
    if found.recovery_name is not None:
        assert shows(single.root / found.recovery_name, "mode")


def test_a_dead_run_s_recovery_keeps_nothing_else(single: Single) -> None:
    with pytest.raises(Died):
        single.replace(probe=At("authoring.exchange:after", die))
    found = single.confined().recover_file_transaction("f.yaml")
    assert (found.status, found.recovery_name) == (Status.COMMITTED, None)
    assert single.names == {"f.yaml"}


def test_what_the_new_file_is_given_after_a_crash_stays_on_it(single: Single) -> None:
    single.path.chmod(0o644)
    with pytest.raises(Died):
        single.replace(probe=At("authoring.exchange:after", die))
    single.path.chmod(0o600)
    found = single.confined().recover_file_transaction("f.yaml")
    assert found.status is Status.COMMITTED
    assert single.shown == NEW
    assert shows(single.path, "mode")


def test_an_exchange_that_had_not_happened_leaves_nothing(single: Single) -> None:
    single.path.chmod(0o644)
    with pytest.raises(Died):
        single.replace(probe=At("authoring.exchange:before", die))
    single.path.chmod(0o600)
    found = single.confined().recover_file_transaction("f.yaml")
    assert found.reason == "not_committed"
    assert single.names == {"f.yaml"}
    assert shows(single.path, "mode")
