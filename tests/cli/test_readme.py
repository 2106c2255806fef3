"""Every command of the README is run, in the order in which it stands there."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.loading.project import Project

README = Path(__file__).resolve().parents[2] / "README.md"
_BLOCK = re.compile(r"^```(\w+)(?: (\S+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")


class Block(NamedTuple):
    """A block of the page: its language, the file that it shows, and its text."""

    language: str
    file: str
    text: str


def blocks() -> list[Block]:
    """All blocks of the page."""
    return [Block(*found.groups("")) for found in _BLOCK.finditer(README.read_text("utf-8"))]


def commands(text: str) -> list[tuple[str, list[str]]]:
    """The commands of a console block, each with the lines that it prints."""
    found: list[tuple[str, list[str]]] = []
    for line in text.splitlines():
        if line.startswith("$ "):
            found.append((line[2:], []))
        else:
            found[-1][1].append(line)
    return found


def run(project: Project, command: str, printed: list[str]) -> None:
    """Run one command and compare what it prints, where the page shows it."""
    program, *arguments = command.split()
    assert program == "dpone", command
    said = project.call(*arguments)
    assert (said.code, said.err) == (0, ""), command
    if printed:
        shown = [_TIME.sub("<time>", line) for line in printed]
        assert _TIME.sub("<time>", said.out).splitlines() == shown, command


def run_python(text: str) -> str:
    """Run a Python block and return what it prints."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(text, "README.md", "exec"), {})
    return out.getvalue()


def test_every_command_does_what_the_page_says(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project.root / "dpone.toml").unlink()
    monkeypatch.chdir(project.root)
    ran = 0
    for block in blocks():
        if block.file:
            project.write(block.file, block.text)
        elif block.language == "console":
            for command, printed in commands(block.text):
                run(project, command, printed)
                ran += 1
        else:
            assert block.language == "python"
            # The page shows one call; a second one is answered from the fence.
            assert run_python(block.text) == "committed\n"
            assert run_python(block.text) == "replayed\n"
    assert ran >= 9


def test_no_command_hides_outside_of_a_console_block() -> None:
    outside = _BLOCK.sub("", README.read_text("utf-8"))
    assert re.findall(r"`dpone (?:run|route|journal)[^`]*`", outside) == []
