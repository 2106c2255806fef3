"""Files that several publications stand on, names that two of them take at once, and what
concluding a dead one says."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

from dpone.adapters.posix.files import PosixFolder
from dpone.authoring.publish import Publisher, Unpublished
from dpone.contracts.authoring import Status
from dpone.contracts.catalog import Owner
from dpone.contracts.effects import Effect
from dpone.contracts.errors_authoring import FileConflict
from dpone.contracts.publication import Change, Concluded, Conclusion, Publication
from dpone.ports.probe import Probe, quiet
from dpone.wiring import authoring_desk
from faultinject.writing import NEW, OLD, _refused, tree_of
from tests.authoring.confined.studio import At
from tests.loading.project import Project

SHARED = Change(path="shared/set.yaml", after=b"the set\n", shared=True)
OWN = Change(path="new/a.yaml", after=b"a\n")
PLAN = Publication(root=Change(path="root.yaml", before=OLD, after=NEW), fragments=(SHARED, OWN))
RECEIPT = ".root.yaml.dpone-publish.json"
SET = "dpone_workloads/gitops/gitops.yaml"
DOMAINS = "dpone_workloads/gitops/domains"


class Died(BaseException):
    """As a kill, within this process."""


def die() -> None:
    raise Died


def publisher(tree: Path, probe: Probe = quiet) -> Publisher:
    return Publisher(authoring_desk(tree, probe=probe).confined)


@pytest.fixture
def tree(place: Path) -> Path:
    (place / "root.yaml").write_bytes(OLD)
    return place


@pytest.fixture(params=[False, True], ids=["nameless", "named"])
def each_way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file system with nameless files, and one without."""
    if request.param:
        monkeypatch.setattr(PosixFolder, "_nameless", _refused)


def dead(tree: Path, point: str, number: int = 1, plan: Publication = PLAN) -> None:
    with pytest.raises(Died):
        publisher(tree, At(point, die, number)).publish(plan)


def concluded(tree: Path) -> Concluded:
    library = publisher(tree)
    library.confined.recover_file_transaction("root.yaml")
    found = library.conclude("root.yaml")
    assert found is not None
    assert library.conclude("root.yaml") is None
    assert not [path for path in tree_of(tree) if ".dpone-" in path]
    return found


def said(found: Concluded) -> set[tuple[str, str]]:
    return {(file.path, file.reason) for file in found}


# -- shared files


def test_a_shared_file_of_a_dead_run_stays(tree: Path, each_way: None) -> None:
    dead(tree, "authoring.publish:after", 2)
    found = concluded(tree)
    assert found.decided is Conclusion.WITHDRAW
    assert said(found) == {("shared/set.yaml", "shared")}
    assert tree_of(tree) == {"root.yaml": OLD, "shared/set.yaml": SHARED.after}


def test_a_shared_file_that_had_no_name_yet_is_not_made(tree: Path, each_way: None) -> None:
    dead(tree, "authoring.publish:before")
    found = concluded(tree)
    assert (found.decided, said(found)) == (Conclusion.WITHDRAW, set())
    assert tree_of(tree) == {"root.yaml": OLD}


def test_a_shared_file_stays_when_a_run_undoes_itself(tree: Path, each_way: None) -> None:
    mine = b"mine\n"

    def save() -> None:
        (tree / "root.yaml").write_bytes(mine)

    with pytest.raises(Unpublished) as caught:
        publisher(tree, At("authoring.record:after", save)).publish(PLAN)
    outcome = caught.value.outcome
    became = {file.path: (file.action, file.reason) for file in outcome.files}
    assert outcome.status is Status.ROLLED_BACK
    assert became["shared/set.yaml"] == ("preserved", "shared")
    assert became["new/a.yaml"][0] == "rolled_back"
    assert tree_of(tree) == {"root.yaml": mine, "shared/set.yaml": SHARED.after}


def test_a_shared_file_that_somebody_replaced_is_his(tree: Path) -> None:
    dead(tree, "authoring.publish:after", 2)
    (tree / "shared/set.yaml").unlink()
    (tree / "shared/set.yaml").write_bytes(b"his\n")
    assert said(concluded(tree)) == {("shared/set.yaml", "not_owned")}
    assert (tree / "shared/set.yaml").read_bytes() == b"his\n"


def test_a_receipt_of_an_earlier_release_knows_no_shared_files(tree: Path) -> None:
    dead(tree, "authoring.publish:after", 2)
    path = tree / RECEIPT
    path.write_bytes(path.read_bytes().replace(b'"shared":true,', b""))
    assert concluded(tree).decided is Conclusion.WITHDRAW
    assert tree_of(tree) == {"root.yaml": OLD}


@pytest.mark.parametrize("number", [2, 3])
def test_a_domain_in_force_stands_when_another_one_is_undone(
    authored: Project, number: int, each_way: None
) -> None:
    root = authored.root
    for path in (root / SET, root / DOMAINS / "sales.yaml"):
        path.unlink()
    confined = authoring_desk(root).confined
    desk = authoring_desk(root, probe=At("authoring.publish:before", die, number))
    owner = Owner(team="crm", contact="crm@example.com", approver_team="crm")
    plan = desk.scaffold.domain("crm", owner).publication()
    assert [change.path for change in plan.fragments if change.shared] == [SET]
    with pytest.raises(Died):
        Publisher(desk.confined).publish(plan)
    assert authored.call("init", "domain", "sales", "--apply").code == 0
    before = (root / SET).read_bytes()
    found = Publisher(confined).conclude(f"{DOMAINS}/crm.yaml")
    assert found is not None
    assert (root / SET).read_bytes() == before
    assert not (root / "workloads/crm/ownership.yaml").exists()
    assert authored.call("init", "domain", "sales", "--apply").code == 0


def test_what_init_makes_for_everybody_is_shared(place: Path) -> None:
    plan = authoring_desk(place).scaffold.project().publication()
    assert {change.path for change in plan.fragments if change.shared} == {SET, ".gitignore"}


# -- one name, taken twice


def meeting(tree: Path, path: str, data: bytes) -> Callable[[], None]:
    def act() -> None:
        (tree / path).parent.mkdir(parents=True, exist_ok=True)
        (tree / path).write_bytes(data)

    return act


@pytest.mark.parametrize("change", [SHARED, OWN], ids=lambda change: change.path)
def test_a_name_taken_with_the_same_bytes_is_no_conflict(
    tree: Path, change: Change, each_way: None
) -> None:
    act = meeting(tree, change.path, change.after)
    number = PLAN.fragments.index(change) + 1
    outcome = publisher(tree, At("authoring.publish:before", act, number)).publish(PLAN)
    assert outcome.status is Status.COMMITTED
    became = {file.path: file.action for file in outcome.files}
    assert became[change.path] == "no_op"
    assert tree_of(tree) == {each.path: each.after for each in PLAN.changes}


def test_a_new_root_taken_with_the_same_bytes_is_no_conflict(place: Path, each_way: None) -> None:
    plan = msgspec.structs.replace(PLAN, root=Change(path="root.yaml", after=NEW))
    act = meeting(place, "root.yaml", NEW)
    outcome = publisher(place, At("authoring.publish:before", act, 3)).publish(plan)
    assert outcome.status is Status.COMMITTED
    assert tree_of(place) == {each.path: each.after for each in plan.changes}


def test_what_was_taken_by_somebody_is_his_when_the_rest_is_undone(
    tree: Path, each_way: None
) -> None:
    taken = At("authoring.publish:before", meeting(tree, OWN.path, OWN.after), 2)
    death = At("authoring.record:after", die)

    @contextmanager
    def both(effect: Effect, /) -> Iterator[None]:
        with death(effect), taken(effect):
            yield

    with pytest.raises(Died):
        publisher(tree, both).publish(PLAN)
    found = concluded(tree)
    assert (OWN.path, "not_owned") in said(found)
    assert (tree / OWN.path).read_bytes() == OWN.after


@pytest.mark.parametrize("data", [b"other\n", None])
def test_a_name_taken_with_other_bytes_is_a_conflict(
    tree: Path, data: bytes | None, each_way: None
) -> None:
    def act() -> None:
        path = tree / OWN.path
        if data is None:
            path.symlink_to("a.yaml")
        else:
            path.write_bytes(data)

    with pytest.raises(Unpublished) as caught:
        publisher(tree, At("authoring.publish:before", act, 2)).publish(PLAN)
    assert isinstance(caught.value.error, FileConflict)
    assert (tree / "root.yaml").read_bytes() == OLD
    assert (tree / OWN.path).is_symlink() is (data is None)


# -- what concluding says


@pytest.mark.parametrize(
    ("point", "number", "root", "decided"),
    [
        ("authoring.publish:after", 2, None, Conclusion.WITHDRAW),
        ("authoring.settle:before", 1, None, Conclusion.IN_FORCE),
        ("authoring.publish:after", 2, b"somebody's\n", Conclusion.LEAVE),
    ],
)
def test_it_says_what_the_new_files_came_to(
    tree: Path, point: str, number: int, root: bytes | None, decided: Conclusion
) -> None:
    dead(tree, point, number)
    if root is not None:
        (tree / "root.yaml").write_bytes(root)
    found = concluded(tree)
    assert found.decided is decided
    assert isinstance(found, tuple)
    wanted: set[tuple[str, str]] = set()
    if decided is Conclusion.WITHDRAW:
        wanted = {(SHARED.path, "shared")}
    elif decided is Conclusion.LEAVE:
        wanted = {(SHARED.path, "root_changed"), (OWN.path, "root_changed")}
    assert said(found) == wanted


def test_a_file_that_is_somebody_s_by_now_is_named(tree: Path) -> None:
    dead(tree, "authoring.publish:after", 2)
    (tree / OWN.path).write_bytes(b"somebody wrote here\n")
    assert (OWN.path, "not_owned") in said(concluded(tree))
