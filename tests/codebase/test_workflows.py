"""Workflows for whoever hosts the repository: they parse, and call only what is there."""

from __future__ import annotations

import re
import shlex
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.pythons.interpreters import VERSIONS

from .source import ROOT

WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
TARGETS = set(re.findall(r"^([a-z][a-z-]*):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
PROJECT = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
_GROUPS = PROJECT.split("[dependency-groups]")[1].split("\n[")[0]
GROUPS = set(re.findall(r"^([a-z-]+) = \[", _GROUPS, re.MULTILINE))


def workflow(name: str) -> dict[str, Any]:
    """A workflow by the name of its file."""
    parsed: dict[str, Any] = yaml.safe_load(
        (ROOT / ".github" / "workflows" / name).read_text(encoding="utf-8")
    )
    return parsed


def steps(parsed: dict[str, Any]) -> list[dict[str, Any]]:
    """All steps of all jobs."""
    return [step for job in parsed["jobs"].values() for step in job["steps"]]


def missing(command: str) -> str:
    """What a command calls that is not there; empty if all is. Unknown kinds of commands are missing, too."""
    words = shlex.split(command)
    if words[0] == "make":
        return ", ".join(word for word in words[1:] if word not in TARGETS)
    if words[0] == "bash":
        return "" if (ROOT / words[1]).is_file() else words[1]
    if words[:3] == ["python", "-m", "pip"]:
        groups = [word for option, word in pairwise(words) if option == "--group"]
        return ", ".join(group for group in groups if group not in GROUPS)
    if words[:2] == ["python", "-m"] and words[2].startswith("tests."):
        return "" if (ROOT / Path(*words[2].split(".")) / "__main__.py").is_file() else words[2]
    return command


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow_calls_what_is_there(path: Path) -> None:
    parsed = workflow(path.name)
    assert parsed["name"] == path.stem
    assert parsed[True], "when it runs: YAML reads `on` as true"
    assert parsed["permissions"] == {"contents": "read"}
    assert all(job["timeout-minutes"] <= 120 for job in parsed["jobs"].values())
    for step in steps(parsed):
        assert ("uses" in step) != ("run" in step)
        if "uses" in step:
            assert re.fullmatch(r"actions/[a-z-]+@v\d+", step["uses"]), "pinned by its major version"
        else:
            assert missing(step["run"].strip()) == ""


def test_every_python_is_tested_on_every_system() -> None:
    matrix = workflow("tests.yml")["jobs"]["pythons"]["strategy"]["matrix"]
    assert matrix["python"] == [version for version in VERSIONS if not version.endswith("t")]
    assert {name.partition("-")[0] for name in matrix["os"]} == {"ubuntu", "macos", "windows"}
    assert {row["python"] for row in matrix["include"]} == set(VERSIONS) - set(matrix["python"])


def test_types_are_checked_for_the_oldest_python() -> None:
    """Names that only later versions of the standard library have are errors of types."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert f"/mypy --python-version {VERSIONS[0]}" in makefile
    pyproject = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert f'target-version = "py{VERSIONS[0].replace(".", "")}"' in pyproject
    assert f'requires-python = ">={VERSIONS[0]}"' in pyproject


def test_what_a_maintainer_runs_is_run() -> None:
    """The whole suite, the wheel's tests, the distributions and the documentation."""
    commands = {
        step["run"].strip() for path in WORKFLOWS for step in steps(workflow(path.name)) if "run" in step
    }
    assert {"bash .ci/run", "make test-wheel", "make dist", "make docs"} <= commands
