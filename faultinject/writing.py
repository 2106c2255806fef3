"""Commands that write project files, as workloads for kills, and the judge of what they leave.

A task is a template project, a command, and the world it runs in: with or without nameless files.
A round copies the template, kills the command, looks at the files, and runs it again.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

import dpone.adapters.yamlfile.documents
import dpone.authoring.desk
import dpone.authoring.earlier
import dpone.authoring.workload
import dpone.cli.alias_migrate
import dpone.cli.alias_workload
import dpone.cli.authoring
import dpone.cli.catalog
import dpone.cli.init  # noqa: F401 - a zygote imports all of these once
from dpone.adapters.posix.files import PosixFiles, PosixFolder
from dpone.authoring.confined import ConfinedFiles
from dpone.contracts.authoring import OwnedFile, sha256_of
from dpone.contracts.codec import plain
from dpone.contracts.errors import DponeError
from dpone.ports.files import NamelessUnsupported
from dpone.ports.probe import Probe
from faultinject import editing_process, workloads
from faultinject.matrix import memory_folder
from faultinject.zygote import Ended, Zygote

COMMAND = "faultinject.writing:command"
Tree = dict[str, bytes]

OLD = b"# before\nvalue: 1\n"
NEW = b"# after\nvalue: 2\n"


@dataclass(frozen=True, slots=True)
class Task:
    """One command. `before` are the commands that make its template, `files` what else is there.

    `named`: nameless files are not available. `does`: `replace` or `remove` of the file `f.yaml`
    instead of a command line. `edit`: what an editor does, and at which effect.
    """

    name: str
    argv: tuple[str, ...] = ()
    before: tuple[tuple[str, ...], ...] = ()
    files: Mapping[str, bytes] = field(default_factory=dict)
    named: bool = False
    does: str = ""
    edit: tuple[str, str, str] | None = None


def command(args: Mapping[str, Any], probe: Probe) -> dict[str, Any]:
    """Run a task's command, or any one given as `argv`, in its world."""
    if args.get("named"):
        PosixFolder._nameless = _refused  # type: ignore[method-assign]
    if args.get("edit"):
        probe = editing_process.Injected(probe, Path(args["cwd"]), *args["edit"])
    if args.get("meet"):
        workloads._meet(Path(args["meet"]), args["meet_count"])
    if args.get("argv"):
        return workloads.cli(args, probe)
    confined = ConfinedFiles(PosixFiles(Path(args["cwd"])), probe=probe)
    try:
        outcome: Any
        if args["does"] in ("replace", "toggle"):
            is_new = args["does"] == "toggle" and Path(args["cwd"], "f.yaml").read_bytes() == NEW
            before, after = (NEW, OLD) if is_new else (OLD, NEW)
            outcome = confined.replace_file_if_digest(
                "f.yaml", expected_sha256=sha256_of(before), desired=after
            )
        else:
            outcome = confined.remove_file_if_owned(OwnedFile(**args["owned"]))
    except DponeError as error:
        report: dict[str, Any] = {"code": error.code, **plain(error.report())}
        Path(args["out"]).write_text(json.dumps(report))
        return report
    found = plain(outcome)
    Path(args["out"]).write_text(json.dumps(found))
    return {"exit_code": 4 if found.get("cleanup_required") else 0, **found}


def _refused(self: PosixFolder, mode: int) -> NoReturn:
    raise NamelessUnsupported


class Project:
    """A copy of a task's template in memory; `args` are its command's."""

    def __init__(self, task: Task, folder: Path) -> None:
        self.task = task
        self.folder = folder
        self.root = folder / "project"
        self.args: dict[str, Any] = {
            "cwd": str(self.root),
            "out": str(folder / "out"),
            "argv": list(task.argv),
            "named": task.named,
            "does": task.does,
        }
        if task.does == "remove":
            self.args["owned"] = owned(self.root, "f.yaml")

    @property
    def edited(self) -> dict[str, Any]:
        """The arguments of a run in which the editor acts."""
        return {**self.args, "edit": list(self.task.edit or ())}

    def said(self) -> Any:
        """The object that the last command printed; empty when there is none."""
        path = self.folder / "out"
        text = path.read_text() if path.exists() else ""
        line = text.partition("\n")[0]
        return json.loads(line) if line.startswith("{") else {}

    def note(self, names: Iterable[str]) -> None:
        """Write down recovery names that a receipt told."""
        with (self.folder / "told").open("a") as file:
            file.writelines(f"{name}\n" for name in names)

    def told(self) -> set[str]:
        """The names that were written down."""
        path = self.folder / "told"
        return set(path.read_text().split()) if path.exists() else set()

    def tree(self) -> Tree:
        """The bytes of every regular file, by path."""
        return tree_of(self.root)


def tree_of(root: Path) -> Tree:
    """The bytes of every regular file below a folder, by relative path."""
    found: Tree = {}
    for folder, _, names in os.walk(root):
        for name in names:
            path = Path(folder, name)
            if path.is_file() and not path.is_symlink():
                found[path.relative_to(root).as_posix()] = path.read_bytes()
    return found


def owned(root: Path, path: str) -> dict[str, Any]:
    """The receipt of a file as its creator would have it."""
    with PosixFiles(root).folder("") as folder:
        held = folder.hold(path)
        assert held is not None
        look, data = held.look(), (root / path).read_bytes()
        held.close()
    fields = {"path": path, "device": look.device, "identity": look.identity}
    return {**fields, "size": len(data), "sha256": sha256_of(data)}


class Bench:
    """Runs one task again and again. `old` and `new` are the trees before and after it."""

    def __init__(self, zygote: Zygote, task: Task) -> None:
        self.zygote = zygote
        self.task = task
        self._held = contextlib.ExitStack()
        place = tempfile.TemporaryDirectory(prefix="dpone-writing-", dir=memory_folder())
        self.template = Path(self._held.enter_context(place)) / "project"
        self.template.mkdir()
        for argv in task.before:
            out = str(self.template.parent / "out")
            ended = zygote.run(COMMAND, {"cwd": str(self.template), "out": out, "argv": list(argv)})
            assert ended.exit_code == 0, Path(out).read_text()
        for name, data in task.files.items():
            (self.template / name).parent.mkdir(parents=True, exist_ok=True)
            (self.template / name).write_bytes(data)
        self.old = tree_of(self.template)
        self.new: Tree = {}

    def close(self) -> None:
        """Remove the template."""
        self._held.close()

    @contextlib.contextmanager
    def fresh(self) -> Iterator[Project]:
        """A copy of the template."""
        with tempfile.TemporaryDirectory(prefix="dpone-writing-", dir=memory_folder()) as name:
            shutil.copytree(self.template, Path(name) / "project", symlinks=True)
            yield Project(self.task, Path(name))

    def points(self) -> list[str]:
        """Every point that the command passes; `new` is what it leaves."""
        with self.fresh() as project:
            found, ended = self.traced(project, project.args)
            assert ended.exit_code == 0, f"{self.task.name}: {project.said()}"
            self.new = project.tree()
        return found

    def traced(self, project: Project, args: Mapping[str, Any]) -> tuple[list[str], Ended]:
        """Run to the end and return the points."""
        trace = project.folder / "trace"
        trace.write_bytes(b"")
        ended = self.zygote.run(COMMAND, args, trace=trace)
        return [json.loads(line)["point"] for line in trace.read_text().splitlines()], ended

    # -- judging

    def torn(self, project: Project) -> list[str]:
        """Authoritative paths that are absent or neither old nor new."""
        now, faults = project.tree(), []
        for path, data in self.old.items():
            allowed = {data, self.new.get(path, data)}
            if path not in now:
                if path in self.new:
                    faults.append(f"{path} is absent")
            elif now[path] not in allowed:
                faults.append(f"{path} is neither old nor new")
        for path, data in self.new.items():
            if path not in self.old and now.get(path, data) != data:
                faults.append(f"the new {path} is torn")
        return faults

    def ended(self, project: Project, ended: Ended, *, is_last: bool = False) -> list[str]:
        """What is wrong after a run that was not killed."""
        faults = []
        report = project.said()
        if ended.exit_code != 0:
            faults.append(f"the next run ended {ended.exit_code}: {_short(report)}")
        elif is_last and self.task.argv and report.get("status") not in _STILL:
            faults.append(f"the last run did something: {_short(report)}")
        now = project.tree()
        faults += [f"{path} was left" for path in sorted(set(now) - set(self.new))]
        faults += [f"{path} differs" for path, data in self.new.items() if now.get(path) != data]
        return faults


_STILL = ("no_op", "none")


def _short(report: Any) -> Any:
    errors = report.get("errors") or [report]
    return [(error.get("code"), error.get("status"), error.get("happened")) for error in errors]


# -- rounds ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Round:
    """One round: killed at `first`, and its successor at `second`, if any."""

    task: str
    first: str
    second: str
    recovery: tuple[str, ...]
    faults: tuple[str, ...]


def killed_once(bench: Bench, first: str) -> Round:
    """Kill at a point, run to the end, run again; the successor's points are returned too."""
    with bench.fresh() as project:
        ended = bench.zygote.run(COMMAND, project.args, point=first)
        faults = [] if ended.killed and ended.hit(first) else [f"{first} was armed and not hit"]
        faults += bench.torn(project)
        recovery, ended = bench.traced(project, project.args)
        faults += bench.ended(project, ended)
        ended = bench.zygote.run(COMMAND, project.args)
        faults += bench.ended(project, ended, is_last=True)
    return Round(bench.task.name, first, "", tuple(recovery), tuple(faults))


def killed_twice(bench: Bench, first: str, second: str) -> Round:
    """Kill at a point, kill the successor at one of its own, then run to the end."""
    with bench.fresh() as project:
        faults = []
        for point in (first, second):
            ended = bench.zygote.run(COMMAND, project.args, point=point)
            if not (ended.killed and ended.hit(point)):
                faults.append(f"{point} was armed and not hit")
            faults += bench.torn(project)
        ended = bench.zygote.run(COMMAND, project.args)
        faults += bench.ended(project, ended)
    return Round(bench.task.name, first, second, (), tuple(faults))


def rounds(bench: Bench, *, pairs_max: int) -> Iterator[Round]:
    """Each point once; then at most `pairs_max` pairs, spread over first and second points."""
    plan: list[tuple[str, str]] = []
    for first in bench.points():
        found = killed_once(bench, first)
        yield found
        plan += [(first, second) for second in found.recovery]
    yield from (killed_twice(bench, *pair) for pair in spread(plan, pairs_max))


def spread(plan: list[tuple[str, str]], count: int) -> list[tuple[str, str]]:
    """At most `count` of them: second points that were not seen yet first, then evenly."""
    if len(plan) <= count:
        return plan
    chosen: list[tuple[str, str]] = []
    seen: set[str] = set()
    for pair in plan:
        if pair[1] not in seen and len(chosen) < count:
            seen.add(pair[1])
            chosen.append(pair)
    rest = [pair for pair in plan if pair not in set(chosen)]
    wanted = count - len(chosen)
    return chosen + [rest[number * len(rest) // wanted] for number in range(wanted)]


# -- the tasks -------------------------------------------------------------------------------------

JSON = ("--format", "json")
PROJECT = ("init", "--apply")
DOMAIN = ("init", "domain", "sales", "--apply")
SECOND = ("init", "workload", "sales/items", "--dag", "daily", "--apply")
_READY = (PROJECT, DOMAIN)


def _workload(form: str, *more: str) -> tuple[str, ...]:
    return ("init", "workload", "sales/orders", "--layout", form, *more, "--apply")


def _migrate(source: str, target: str) -> Task:
    path = "workloads/sales/orders"
    return Task(
        f"migrate {source} to {target}",
        ("authoring", "migrate", path, "--to", target, "--apply", *JSON),
        (*_READY, _workload(source)),
    )


FORMS = ("classic", "flow", "folder")
MIGRATIONS = tuple(_migrate(a, b) for a in FORMS for b in FORMS if a != b)
COMMANDS = (
    Task("init", (*PROJECT, *JSON)),
    Task("init domain", (*DOMAIN, *JSON), (PROJECT,)),
    Task("init workload, new", (*_workload("folder", "--dag", "daily"), *JSON), _READY),
    Task("init workload, second", (*SECOND, *JSON), (*_READY, _workload("classic"))),
    Task(
        "init dag",
        ("init", "dag", "sales/daily", "--workload", "orders", "--apply", *JSON),
        (*_READY, _workload("classic")),
    ),
    Task(
        "catalog apply",
        ("catalog", "apply", "sales", "--dag", "daily", "--workload", "items", "--apply", *JSON),
        (
            *_READY,
            _workload("classic", "--dag", "daily"),
            ("init", "workload", "sales/items", "--apply"),
        ),
    ),
)
SINGLES = (
    Task("replace", does="replace", files={"f.yaml": OLD}),
    Task("remove", does="remove", files={"f.yaml": OLD}),
)


def without_nameless(task: Task) -> Task:
    """The same where no file can be without a name."""
    return Task(f"{task.name}, named", task.argv, task.before, task.files, True, task.does)
