"""Rules for single source files: size, names, skips, who imports whom."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.shape import rules, tree


def findings(folders: tuple[str, ...], rule: str) -> list[str]:
    """Apply a rule to every file and put the file's name before what it found."""
    check = getattr(rules, rule)
    return [
        f"{tree.name_of(path)}: {found}"
        for path in tree.python_files(*folders)
        for found in check(tree.source(path))
    ]


def test_production_code_is_found_at_all() -> None:
    assert len(list(tree.python_files("dpone"))) > 5


def test_every_module_stays_short() -> None:
    assert findings((*tree.PRODUCTION, *tree.JUDGES), "long_module") == []


def test_every_production_function_stays_short() -> None:
    assert findings(tree.PRODUCTION, "long_functions") == []


def test_no_file_is_named_after_a_drawer() -> None:
    names = [tree.name_of(path) for path in tree.python_files(*tree.ALL_PYTHON)]
    assert rules.drawer_names(names) == []


def test_no_test_is_skipped_in_silence() -> None:
    assert findings(("tests", "airflow_tests", "certification"), "silent_skips") == []


def test_models_never_read_the_transition_table() -> None:
    # A model that used the table could not judge it.
    walls = ["dpone.contracts.transitions"]
    found = {
        tree.name_of(path): bad
        for path in tree.python_files("models")
        if (bad := rules.forbidden_imports(tree.source(path), walls))
    }
    assert found == {}


def test_models_see_of_production_only_its_contracts() -> None:
    layers = ("adapters", "airflow", "authoring", "cli", "fencing", "loading", "ports", "retention")
    walls = [*(f"dpone.{layer}" for layer in layers), "dpone.routes", "dpone.wiring"]
    found = {
        tree.name_of(path): bad
        for path in tree.python_files("models")
        if (bad := rules.forbidden_imports(tree.source(path), walls))
    }
    assert found == {}


def test_authoring_knows_contracts_and_ports_only() -> None:
    # Neither loads, schedulers and clients, nor the system calls that an adapter stands for.
    layers = ("adapters", "airflow", "cli", "fencing", "loading", "retention", "routes", "wiring")
    clients = ("airflow", "duckdb", "psycopg", "sqlite3", "yaml")
    system = ("ctypes", "fcntl", "os", "shutil", "socket", "subprocess", "tempfile", "urllib")
    walls = [*(f"dpone.{layer}" for layer in layers), *clients, *system]
    found = {
        tree.name_of(path): bad
        for path in tree.python_files("dpone/authoring")
        if (bad := rules.forbidden_imports(tree.source(path), walls))
    }
    assert found == {}
    assert len(list(tree.python_files("dpone/authoring"))) > 20


def test_production_code_never_imports_its_judges() -> None:
    walls = [*tree.JUDGES, "tests", "airflow_tests", "bench", "demo", "tools"]
    found = {
        tree.name_of(path): bad
        for path in tree.python_files("dpone")
        if (bad := rules.forbidden_imports(tree.source(path), walls))
    }
    assert found == {}


def test_the_layers_and_the_owners_of_client_libraries_are_kept() -> None:
    """The contracts stand in `pyproject.toml`."""
    program = Path(sys.executable).with_name("lint-imports")
    done = subprocess.run(
        [program, "--no-logo", "--no-cache"], cwd=tree.ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert int(re.findall(r"Contracts: (\d+) kept, 0 broken", done.stdout)[0]) >= 19


OVERCLAIMS = re.compile(
    r"retryable|duplicate.?proof|exactly[ -]once|no duplicates|guarantee", re.IGNORECASE
)


def test_nothing_that_is_said_promises_more_than_a_fence_keeps() -> None:
    said = [
        f"{tree.name_of(path)}: {node.value}"
        for path in tree.python_files(*tree.PRODUCTION)
        for node in ast.walk(ast.parse(tree.source(path)))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        if OVERCLAIMS.search(node.value)
    ]
    assert said == []


# ---------------------------------------------------------------------------
# Each rule finds its own seeded defect.


def test_rule_finds_an_overclaim() -> None:
    for text in ("retryable: false", "Duplicate-proof.", "loads exactly once", "guaranteed"):
        assert OVERCLAIMS.search(text), text
    assert not OVERCLAIMS.search("a retry loads nothing twice")


def test_rule_finds_a_long_module_and_passes_one_at_the_limit() -> None:
    assert rules.long_module("x = 1\n" * 400) == ["400 lines, at most 399 allowed"]
    assert rules.long_module("x = 1\n" * 399) == []


def test_rule_counts_a_function_without_its_docstring() -> None:
    def body(lines: int) -> str:
        docstring = '    """One.\n\n    Two.\n    """\n'
        return "def long():\n" + docstring + "    x = 1\n" * lines

    assert rules.long_functions(body(48)) == []
    assert rules.long_functions(body(49)) == ["long (line 1): 50 lines, at most 49 allowed"]


def test_rule_sees_methods_and_nested_functions() -> None:
    text = "class A:\n    async def m(self):\n" + "        x = 1\n" * 60
    assert rules.long_functions(text) == ["m (line 2): 61 lines, at most 49 allowed"]


@pytest.mark.parametrize(
    "name", ["dpone/utils.py", "dpone/helper/x.py", "dpone/file_util.py", "models/manager.py"]
)
def test_rule_finds_a_drawer(name: str) -> None:
    assert len(rules.drawer_names([name])) == 1


def test_rule_leaves_longer_words_alone() -> None:
    assert rules.drawer_names(["dpone/utility_bill.py", "dpone/miscount.py"]) == []


@pytest.mark.parametrize(
    "text",
    [
        "pytest.skip()",
        "pytest.skip('')",
        "pytest.xfail()",
        "pytest.importorskip('duckdb')",
        "@pytest.mark.skip\ndef test_x(): ...",
        "@pytest.mark.skip()\ndef test_x(): ...",
        "@pytest.mark.skipif(True)\ndef test_x(): ...",
        "@pytest.mark.xfail(True, strict=True)\ndef test_x(): ...",
        "pytestmark = [pytest.mark.xfail]",
    ],
)
def test_rule_finds_a_silent_skip(text: str) -> None:
    assert len(rules.silent_skips("import pytest\n" + text)) == 1


@pytest.mark.parametrize(
    "text",
    [
        "pytest.skip('no loop device')",
        "pytest.skip(f'no {device}')",
        "pytest.importorskip('x', reason='optional peer')",
        "@pytest.mark.skip('why')\ndef test_x(): ...",
        "@pytest.mark.skipif(True, reason='why')\ndef test_x(): ...",
        "@pytest.mark.xfail(reason=WHY)\ndef test_x(): ...",
    ],
)
def test_rule_accepts_a_skip_that_says_why(text: str) -> None:
    assert rules.silent_skips("import pytest\n" + text) == []


@pytest.mark.parametrize(
    "text",
    [
        "import dpone.contracts.transitions",
        "from dpone.contracts.transitions import TRANSITIONS",
        "from dpone.contracts import transitions as t",
        "def f():\n    from dpone.contracts import transitions",
    ],
)
def test_rule_finds_a_forbidden_import(text: str) -> None:
    assert rules.forbidden_imports(text, ["dpone.contracts.transitions"])


def test_rule_leaves_other_imports_alone() -> None:
    text = "from dpone.contracts import journal\nimport dpone.contracts.transitions_of_others"
    assert rules.forbidden_imports(text, ["dpone.contracts.transitions"]) == []
