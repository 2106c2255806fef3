"""The pages say what the program does: links hold, generated pages are fresh, commands parse."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from dpone.cli.commands import app
from tools import reference

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("docs/**/*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md"])
_LINK = re.compile(r"\]\(([^)#\s]+)(?:#([^)\s]+))?\)")
_COMMAND = re.compile(r"`(dpone [a-z][^`]*)`", re.DOTALL)


def _name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def test_generated_pages_say_what_the_tables_say() -> None:
    assert reference.stale() == []


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_every_relative_link_leads_somewhere(page: Path) -> None:
    for place, anchor in _LINK.findall(page.read_text(encoding="utf-8")):
        if "://" in place:
            continue
        target = (page.parent / place).resolve()
        assert target.exists(), place
        if anchor:
            assert f'id="{anchor}"' in target.read_text(encoding="utf-8"), anchor


def _commands() -> list[str]:
    found = set()
    for page in PAGES:
        for command in _COMMAND.findall(page.read_text(encoding="utf-8")):
            found.add(" ".join(command.split()))
    return sorted(found)


@pytest.mark.parametrize("command", _commands())
def test_every_command_that_a_page_names_is_one_that_the_program_knows(command: str) -> None:
    words = shlex.split(command)[1:]
    names = [word for word in words if not word.startswith("-")]
    nested = ("route", "journal", "init", "catalog", "authoring", "airflow")
    group = names[:2] if names[0] in nested else names[:1]
    shown = CliRunner().invoke(app, [*group, "--help"])
    assert shown.exit_code == 0, shown.output
    for word in words:
        if word.startswith("--"):
            assert word.partition("=")[0] in shown.output, word


def test_every_error_code_has_its_section() -> None:
    page = (ROOT / "docs/reference/errors.md").read_text(encoding="utf-8")
    missing = [kind.code for kind in reference.error_classes() if f"</a>{kind.code}\n" not in page]
    assert missing == []
