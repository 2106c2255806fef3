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


_CITED = re.compile(r"ADR (\d{4}), ([a-z][a-z -]*[a-z])")
_STEP = re.compile(r"(?:steps?|decision) ?(?:\d.*)?")


def test_every_section_of_a_decision_that_the_code_cites_is_there() -> None:
    headings = {
        page.name[:4]: {
            line.strip("# ").lower()
            for line in page.read_text(encoding="utf-8").splitlines()
            if line.startswith("##")
        }
        for page in (ROOT / "docs/adr").glob("*.md")
    }
    cited = {
        (found.group(1), found.group(2), path.relative_to(ROOT).as_posix())
        for path in (ROOT / "dpone").rglob("*.py")
        for found in _CITED.finditer(" ".join(path.read_text(encoding="utf-8").split()))
    }
    assert len(cited) > 20
    assert [
        it for it in sorted(cited) if not _STEP.fullmatch(it[1]) and it[1] not in headings[it[0]]
    ] == []
