"""The rules as pure functions of source text; each returns what it found, in words.

They are kept apart from the tests so that every rule can be shown to fail: a check that
cannot find its own seeded defect is worth nothing.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping

MODULE_LINES_MAX = 399
FUNCTION_LINES_MAX = 49

# Words that name a drawer instead of an idea.
DRAWERS = {"common", "helper", "manager", "misc", "service", "util"}
DRAWERS |= {word + "s" for word in DRAWERS}

Function = ast.FunctionDef | ast.AsyncFunctionDef


def long_module(text: str, lines_max: int = MODULE_LINES_MAX) -> list[str]:
    """Find a module with too many lines."""
    lines = len(text.splitlines())
    return [f"{lines} lines, at most {lines_max} allowed"] if lines > lines_max else []


def function_lines(function: Function) -> int:
    """Count a function's lines without its docstring, which may be as long as it needs."""
    lines = (function.end_lineno or function.lineno) - function.lineno + 1
    if ast.get_docstring(function, clean=False) is not None:
        docstring = function.body[0]
        lines -= (docstring.end_lineno or docstring.lineno) - docstring.lineno + 1
    return lines


def long_functions(text: str, lines_max: int = FUNCTION_LINES_MAX) -> list[str]:
    """Find functions and methods with too many lines."""
    return [
        f"{node.name} (line {node.lineno}): {lines} lines, at most {lines_max} allowed"
        for node in ast.walk(ast.parse(text))
        if isinstance(node, Function) and (lines := function_lines(node)) > lines_max
    ]


def drawer_names(names: Iterable[str]) -> list[str]:
    """Find files and folders that are named after a drawer; `names` are relative paths."""
    found: list[str] = []
    for name in names:
        words = {
            word for part in name.removesuffix(".py").split("/") for word in part.lower().split("_")
        }
        found.extend(f"{name}: '{word}' names no idea" for word in sorted(words & DRAWERS))
    return found


def enum_members(text: str, class_name: str) -> list[str]:
    """Return the members that a class assigns, in order."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ClassDef) and node.name == class_name:
            return [
                target.id
                for statement in node.body
                if isinstance(statement, ast.Assign)
                for target in statement.targets
                if isinstance(target, ast.Name) and not target.id.startswith("_")
            ]
    raise LookupError(f"no class {class_name}")


def attributes_of(text: str, class_name: str) -> set[str]:
    """Return every NAME that the text uses as `class_name.NAME`."""
    used = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Attribute):
            owner = node.value
            if (isinstance(owner, ast.Name) and owner.id == class_name) or (
                isinstance(owner, ast.Attribute) and owner.attr == class_name
            ):
                used.add(node.attr)
    return used


def unused_members(declaration: str, class_name: str, users: Iterable[str]) -> list[str]:
    """Find declared members that no user mentions."""
    used: set[str] = set()
    for text in users:
        used |= attributes_of(text, class_name)
    return [name for name in enum_members(declaration, class_name) if name not in used]


def imported_modules(text: str) -> Iterator[str]:
    """Yield every module that a text imports, and every name that could be a submodule."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def forbidden_imports(text: str, forbidden: Iterable[str]) -> list[str]:
    """Find imports of the forbidden modules or of anything below them."""
    walls = tuple(forbidden)
    return sorted(
        {
            name
            for name in imported_modules(text)
            if any(name == wall or name.startswith(wall + ".") for wall in walls)
        }
    )


def needed_places(adapter_files: Iterable[str], places: Mapping[str, Iterable[str]]) -> set[str]:
    """Return the places that must exist because an adapter has a stem.

    `adapter_files` are relative paths `dpone/adapters/<package>/<stem>.py`; `places` maps a
    stem to its files, and the caller looks whether they exist.
    """
    stems = {name.rpartition("/")[2].removesuffix(".py") for name in adapter_files}
    return {place for stem in stems for place in places.get(stem, ())}


def _is_pytest(node: ast.expr, *path: str) -> bool:
    """Say whether an expression reads `pytest.<path>`."""
    for name in reversed(path):
        if not (isinstance(node, ast.Attribute) and node.attr == name):
            return False
        node = node.value
    return isinstance(node, ast.Name) and node.id == "pytest"


def _has_reason(call: ast.Call, positional: bool) -> bool:
    """Say whether a call carries a reason that is not empty."""
    reasons = [keyword.value for keyword in call.keywords if keyword.arg in ("reason", "msg")]
    if positional and call.args:
        reasons.append(call.args[0])
    return any(
        not (isinstance(reason, ast.Constant) and not (reason.value and str(reason.value).strip()))
        for reason in reasons
    )


def silent_skips(text: str) -> list[str]:
    """Find skips and expected failures that give no reason."""
    found = []
    reasoned: set[int] = set()
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        marks = any(_is_pytest(node.func, "mark", name) for name in ("skip", "skipif", "xfail"))
        calls = any(_is_pytest(node.func, name) for name in ("skip", "xfail", "importorskip"))
        if not (marks or calls):
            continue
        reasoned.add(id(node.func))
        # The first argument is the reason only for skip and xfail themselves and mark.skip.
        positional = any(
            _is_pytest(node.func, *path) for path in (("skip",), ("xfail",), ("mark", "skip"))
        )
        if not _has_reason(node, positional):
            found.append(f"line {node.lineno}: {ast.unparse(node.func)} without a reason")
    for node in ast.walk(tree):
        if not isinstance(node, ast.Attribute) or id(node) in reasoned:
            continue
        if any(_is_pytest(node, "mark", name) for name in ("skip", "skipif", "xfail")):
            found.append(f"line {node.lineno}: bare {ast.unparse(node)}")
    return found


def machine_traces(text: str, hosts: Iterable[str], folders: Iterable[str]) -> list[str]:
    """Find package index hosts and absolute paths of one machine."""
    found = [f"names the package index host #{n}" for n, host in enumerate(hosts) if host in text]
    for folder in folders:
        # The folder as a whole path: not the end of a longer one, not the start of a longer word.
        if re.search(rf"(?<![\w.~-]){re.escape(folder)}(?![\w.-])", text):
            found.append("holds an absolute path of this machine")
    if re.search(r"(?<![\w.~-])/(?:home|Users)/[A-Za-z][\w.-]*/", text):
        found.append("holds a path in somebody's home folder")
    return found


def shared_codes(codes: Iterable[tuple[str, str]]) -> list[str]:
    """Find codes that two classes share or that are empty; pairs are (class, code)."""
    owners: dict[str, list[str]] = {}
    for owner, code in codes:
        owners.setdefault(code, []).append(owner)
    return [
        f"{code or 'no code'}: {', '.join(sorted(names))}"
        for code, names in sorted(owners.items())
        if len(names) > 1 or not code
    ]


def undocumented(names: Mapping[str, object]) -> list[str]:
    """Find classes and callables whose docstring is absent or made by a decorator."""
    found = []
    for name, value in names.items():
        if not (isinstance(value, type) or callable(value)):
            continue
        text = (value.__dict__.get("__doc__") if isinstance(value, type) else value.__doc__) or ""
        generated = text.startswith(f"{getattr(value, '__name__', name)}(")
        if not text.strip() or generated:
            found.append(name)
    return found
