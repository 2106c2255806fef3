"""No kept file names a package index host or a path of the machine it was written on.

The hosts and the folders are asked for at run time: a list of them written down here would
break the rule that it checks.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

from tests.shape import rules, tree

ASK_PIP = """
import json
from pip._internal.configuration import Configuration
from pip._internal.models import index

known = [value for value in vars(index).values() if isinstance(value, index.PackageIndex)]
words = [name for one in known for name in (one.url, "//" + one.file_storage_domain)]
settings = Configuration(isolated=False)
settings.load()
for name, value in settings.items():
    # Newer versions of pip group the settings by the file that they come from.
    pairs = value.items() if isinstance(value, dict) else [(name, value)]
    for key, text in pairs:
        if key.endswith("index-url"):
            words.extend(text.split())
print(json.dumps(words))
"""


def index_hosts() -> list[str]:
    """Return the hosts that pip knows of: its defaults and the configured ones."""
    answer = subprocess.run(
        [sys.executable, "-c", ASK_PIP], capture_output=True, check=True, text=True
    )
    hosts = {urlsplit(word).hostname for word in json.loads(answer.stdout)}
    # A mirror on this machine has no name that would tell anything.
    return sorted(host for host in hosts if host and "." in host and not host[0].isdigit())


def machine_folders() -> list[str]:
    """Return the folders that belong to this machine: the user's home and this clone."""
    folders = {str(Path.home()), str(Path.home().resolve()), str(tree.ROOT)}
    return sorted(folders - {"/", "."})


def test_pip_names_at_least_its_own_index() -> None:
    assert len(index_hosts()) >= 2


def test_kept_files_carry_no_trace_of_a_machine() -> None:
    hosts, folders = index_hosts(), machine_folders()
    files = tree.kept_files()
    assert files
    found: list[str] = []
    for path in files:
        body = path.read_bytes()
        assert len(body) <= tree.FILE_BYTES_MAX, f"{tree.name_of(path)} is too large to keep"
        text = body.decode("utf-8", "replace")
        found.extend(
            f"{tree.name_of(path)} {finding}"
            for finding in rules.machine_traces(text, hosts, folders)
        )
    assert found == []


# ---------------------------------------------------------------------------
# The rule finds its own seeded defects.


def test_rule_finds_a_host_without_repeating_it() -> None:
    found = rules.machine_traces("see https://index.example/simple", ["index.example"], [])
    assert found == ["names the package index host #0"]


def test_rule_finds_whole_paths_only() -> None:
    folder = "/" + "srv"
    for text in (f"cd {folder}/x", f"'{folder}'", f"a:{folder}"):
        assert len(rules.machine_traces(text, [], [folder])) == 1, text
    for text in (f"data{folder}/x", f"{folder}ice", f"~{folder}"):
        assert rules.machine_traces(text, [], [folder]) == [], text


def test_rule_finds_somebodys_home() -> None:
    for base in ("home", "Users"):
        assert len(rules.machine_traces(f"open('/{base}/ann/x.csv')", [], [])) == 1
    assert rules.machine_traces("docs/home/index.md", [], []) == []
