"""Rules between files: one stem names one idea everywhere, and no declaration is idle."""

from __future__ import annotations

import importlib
import pkgutil
import re
import tomllib

import dpone.contracts
from dpone.contracts.errors import DponeError
from tests.shape import rules, tree

# What must stand beside `dpone/adapters/<package>/<stem>.py`, for each stem.
PLACES = {
    stem: (
        f"dpone/ports/{stem}.py",
        f"certification/{stem}.py",
        f"models/{stem}.py",
        f"tests/stateful/test_{stem}.py",
    )
    for stem in ("files", "journal", "target")
}

EFFECTS = tree.ROOT / "dpone/contracts/effects.py"


def test_a_stem_has_all_its_places() -> None:
    adapters = [tree.name_of(path) for path in tree.ROOT.glob("dpone/adapters/*/*.py")]
    needed = rules.needed_places(adapters, PLACES)
    assert sorted(place for place in needed if not (tree.ROOT / place).is_file()) == []


def test_every_effect_is_used() -> None:
    declared = set(EFFECTS.parent.glob("effects*.py"))
    users = [tree.source(path) for path in tree.python_files("dpone") if path not in declared]
    assert rules.unused_members(tree.source(EFFECTS), "Effect", users) == []


def error_codes() -> list[tuple[str, str]]:
    """Return the class and the code of every error that can be raised."""
    for module in pkgutil.iter_modules(dpone.contracts.__path__, "dpone.contracts."):
        if module.name.rpartition(".")[2].startswith("errors"):
            importlib.import_module(module.name)
    pending: list[type[DponeError]] = DponeError.__subclasses__()
    seen: dict[str, type[DponeError]] = {}
    while pending:
        error = pending.pop()
        pending.extend(error.__subclasses__())
        # Tests may derive errors of their own; a base without a code is never raised.
        is_base = bool(error.__subclasses__()) and not error.code
        if error.__module__.startswith("dpone.") and not is_base:
            seen[f"{error.__module__}.{error.__qualname__}"] = error
    return [(name, error.code) for name, error in seen.items()]


def test_every_error_has_a_code_of_its_own() -> None:
    codes = error_codes()
    assert codes
    assert rules.shared_codes(codes) == []


def test_every_public_name_is_documented() -> None:
    public = list(dpone.__all__)
    assert public
    assert rules.undocumented({name: getattr(dpone, name) for name in public}) == []


def test_the_lock_is_made_from_what_the_library_asks_for() -> None:
    project = tomllib.loads(tree.source(tree.ROOT / "pyproject.toml"))["project"]
    asked = {*project["dependencies"]}
    for extra in project["optional-dependencies"].values():
        asked.update(extra)
    for name in ("requirements.in", "bench/requirements.in"):
        listed = {line.strip() for line in tree.source(tree.ROOT / name).splitlines()}
        assert sorted(asked - listed) == [], name


def test_the_lock_knows_every_package_that_is_listed() -> None:
    for folder in ("", "bench/"):
        locked = {
            line.partition("==")[0].lower()
            for line in tree.source(tree.ROOT / f"{folder}requirements.lock").splitlines()
            if "==" in line
        }
        listed = {
            re.split(r"[^A-Za-z0-9-]", line.strip())[0].lower()
            for line in tree.source(tree.ROOT / f"{folder}requirements.in").splitlines()
            if line.strip() and not line.startswith("#")
        }
        assert sorted(listed - locked) == [], folder


def test_every_locked_package_carries_a_digest() -> None:
    for name in ("requirements.lock", "bench/requirements.lock"):
        lines = tree.source(tree.ROOT / name).splitlines()
        packages = [line for line in lines if "==" in line]
        assert packages
        assert [line for line in packages if not line.endswith("\\")] == []
        # An option line could bring in an address.
        assert [line for line in lines if line.startswith("-")] == []


# ---------------------------------------------------------------------------
# Each rule finds its own seeded defect.


def test_rule_asks_for_the_places_of_a_known_stem_only() -> None:
    places = {"journal": ("a", "b"), "target": ("c",)}
    assert rules.needed_places(["dpone/adapters/x/journal.py"], places) == {"a", "b"}
    assert rules.needed_places(["dpone/adapters/x/__init__.py"], places) == set()


def test_rule_finds_an_effect_that_nobody_uses() -> None:
    declaration = "class Effect(StrEnum):\n    '''Doc.'''\n    USED = 'a'\n    IDLE = 'b'\n"
    assert rules.unused_members(declaration, "Effect", ["probe(Effect.USED)"]) == ["IDLE"]
    assert rules.unused_members(declaration, "Effect", ["effects.Effect.IDLE", "Effect.USED"]) == []
    # A mention in a comment or a string is no use.
    assert rules.unused_members(declaration, "Effect", ["'Effect.USED'  # Effect.IDLE"]) == [
        "USED",
        "IDLE",
    ]


def test_rule_finds_shared_and_empty_codes() -> None:
    assert rules.shared_codes([("A", "X"), ("B", "X"), ("C", "")]) == ["no code: C", "X: A, B"]
    assert rules.shared_codes([("A", "X"), ("B", "Y")]) == []


def test_rule_finds_a_public_name_without_words() -> None:
    class Silent:
        pass

    class Inherits(DponeError):
        pass

    class Generated:
        __doc__ = "Generated(x: int)"

    class Spoken:
        """Says what it is."""

    names = {
        "Silent": Silent,
        "Inherits": Inherits,
        "Generated": Generated,
        "Spoken": Spoken,
        "lambda": lambda: None,
        "LIMIT": 3,
    }
    assert rules.undocumented(names) == ["Silent", "Inherits", "Generated", "lambda"]
