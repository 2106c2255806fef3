"""Commands beside an editor: the tasks, and the judge of a kill among the two."""

from __future__ import annotations

from dataclasses import dataclass

from dpone.contracts.authoring import FILE_BYTES_MAX
from faultinject import editing_process, writing
from faultinject.writing import COMMAND, Bench, Project, Task
from faultinject.zygote import Zygote

CATALOG = "dpone_workloads/gitops/domains/sales.yaml"
SECOND = next(task for task in writing.COMMANDS if task.name == "init workload, second")
NEW = next(task for task in writing.COMMANDS if task.name == "init workload, new")
RUNS_MAX = 5


@dataclass(frozen=True, slots=True)
class Rival:
    """A task, what the editor does to which file, and when."""

    task: Task
    path: str
    action: str
    moment: str

    @property
    def name(self) -> str:
        return f"{self.task.name}, {self.action} {self.moment}"

    @property
    def edit(self) -> list[str]:
        return [self.path, self.action, self.moment]

    def points(self, zygote: Zygote) -> list[str]:
        """Every point that the command passes beside this editor."""
        bench = Bench(zygote, self.task)
        try:
            with bench.fresh() as project:
                return bench.traced(project, {**project.args, "edit": self.edit})[0]
        finally:
            bench.close()

    def killed(self, bench: Bench, point: str) -> list[str]:
        """Kill at a point, then run again as a person would; return the faults."""
        with bench.fresh() as project:
            ended = bench.zygote.run(COMMAND, {**project.args, "edit": self.edit}, point=point)
            faults = [] if ended.killed and ended.hit(point) else ["armed and not hit"]
            # What an editor of the dead process had yet to write is written now, or never will be.
            before = self._marks(project)
            if not any("transaction" in path for path in project.tree()):
                # The journal had gone: nobody but the dead process could tell what it kept.
                project.note(path for path in project.tree() if ".dpone-recovery-" in path)
            faults += self._finished(bench, project)
            if before and not self._marks(project):
                faults.append("saved bytes are reachable no more")
            left = [path for path in project.tree() if _is_ours(path)]
            told = project.told()
            faults += [f"{path} was left and not told" for path in left if path not in told]
            return [f"{self.name}, {point}: {fault}" for fault in faults]

    def _marks(self, project: Project) -> list[str]:
        return editing_process.reachable(project.root, editing_process.MARK)

    def _finished(self, bench: Bench, project: Project) -> list[str]:
        """Run until it ends 0 or 1 (a conflict is an answer); opaque files need a hand."""
        codes = []
        for _ in range(RUNS_MAX):
            ended = bench.zygote.run(COMMAND, project.args)
            self._note(project)
            codes.append(ended.exit_code)
            if ended.exit_code in (0, 1):
                return []
            self._by_hand(bench, project)
        return [f"never finished: {codes} {project.said()}"]

    def _by_hand(self, bench: Bench, project: Project) -> None:
        argv = ["authoring", "recover", self.path, "--keep", "--apply", "--format", "json"]
        bench.zygote.run(COMMAND, {**project.args, "does": "", "argv": argv})
        self._note(project)
        path = project.root / self.path
        if path.is_symlink() or not path.is_file() or path.stat().st_size > FILE_BYTES_MAX:
            # A person moves away what no command may change, and puts a file there again.
            if path.is_symlink() or path.exists():
                path.rename(project.root / "moved-away")
            path.write_bytes(bench.old[self.path])

    def _note(self, project: Project) -> None:
        """Write down the recovery names that were told: relative to the file, or to the project."""
        said = project.said()
        parent = "".join(self.path.rpartition("/")[:2])
        named = [said.get("recovery_name")]
        named += [change.get("recovery_name") for change in said.get("changes", [])]
        named += said.get("unit_of_work", {}).get("recovery_artifacts", [])
        named += [_field(error) for error in (*said.get("errors", []), said)]
        project.note(f"{place}{name}" for name in filter(None, named) for place in (parent, ""))


def _field(error: dict[str, object]) -> object:
    fields = error.get("fields")
    return fields.get("recovery_name") if isinstance(fields, dict) else None


def _is_ours(path: str) -> bool:
    leaf = path.rpartition("/")[2]
    ends = (".dpone-transaction.json", ".dpone-publish.json")
    return leaf.startswith(".dpone-") or any(end in leaf for end in ends)


REPLACE, REMOVE = writing.SINGLES
RIVALS = (
    Rival(REPLACE, "f.yaml", "rename_save", "before"),
    Rival(REPLACE, "f.yaml", "in_place", "before"),
    Rival(REPLACE, "f.yaml", "same_bytes", "before"),
    Rival(REPLACE, "f.yaml", "away_then_create", "at"),
    Rival(REPLACE, "f.yaml", "held", "before"),
    Rival(REPLACE, "f.yaml", "knocking", "after"),
    Rival(REPLACE, "f.yaml", "chmod", "before"),
    Rival(REPLACE, "f.yaml", "unlink", "at"),
    Rival(REPLACE, "f.yaml", "rename_save+rename_save", "twice"),
    Rival(REPLACE, "f.yaml", "symlink", "before"),
    Rival(REPLACE, "f.yaml", "pipe", "before"),
    Rival(REPLACE, "f.yaml", "folder", "before"),
    Rival(REPLACE, "f.yaml", "big", "before"),
    Rival(REMOVE, "f.yaml", "rename_save", "authoring.quarantine:before"),
    Rival(REMOVE, "f.yaml", "held", "authoring.quarantine:before"),
    Rival(SECOND, CATALOG, "rename_save", "before"),
    Rival(SECOND, CATALOG, "big", "before"),
    Rival(SECOND, CATALOG, "rename_save", "authoring.publish:after"),
    Rival(NEW, CATALOG, "rename_save", "authoring.publish:after"),
)
