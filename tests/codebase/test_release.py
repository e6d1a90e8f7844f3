"""What a release says of itself in several places is the same in all."""

from __future__ import annotations

import json
import re

import yaml

import notebook_prof
from tests.pythons.interpreters import VERSIONS

from .source import ROOT

VERSION = notebook_prof.__version__
CHANGELOG = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
CITATION = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))


def test_the_citation_is_of_this_version() -> None:
    assert CITATION["cff-version"] == "1.2.0"
    assert {"message", "title", "authors", "license", "date-released"} <= set(CITATION)
    assert CITATION["version"] == VERSION
    pyproject = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert f'license = "{CITATION["license"]}"' in pyproject
    assert f"keywords = {json.dumps(CITATION['keywords'])}" in pyproject


def test_the_citation_names_the_authors_of_the_package() -> None:
    pyproject = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert [
        f'authors = [{{ name = "{author["name"]}" }}]' in pyproject for author in CITATION["authors"]
    ] == [True]


def test_the_version_is_written_once() -> None:
    """The build takes it from the package; the extension of JupyterLab has the same."""
    pyproject = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert 'dynamic = ["version", "readme"]' in pyproject
    assert '[tool.hatch.version]\npath = "notebook_prof/__init__.py"' in pyproject
    extension = json.loads((ROOT / "js" / "labextension" / "package.json").read_text(encoding="utf-8"))
    assert extension["version"] == VERSION


def test_the_changelog_begins_with_this_version() -> None:
    """Its sections are Keep a Changelog's, each once, and each entry is one of a list."""
    headings = re.findall(r"^## (.+)$", CHANGELOG, re.MULTILINE)
    top = CHANGELOG.split("\n## ", 2)[1]
    assert headings[0] == f"{VERSION} – {CITATION['date-released']}"
    sections = re.findall(r"^### (.+)$", top, re.MULTILINE)
    assert sections == ["Added", "Changed", "Removed", "Fixed"]
    assert len(top.splitlines()) <= 60
    for line in top[top.index("### ") :].splitlines():
        assert not line or line.startswith(("- ", "  ", "### ")), line


def test_the_table_of_support_names_what_is_tested() -> None:
    """Every version of Python has a row, every test that is named exists, every target is one of make's."""
    text = (ROOT / "docs" / "support.md").read_text(encoding="utf-8")
    rows = [line.split("|")[1] for line in text.splitlines() if re.match(r"\| 3\.", line)]
    assert sorted(re.findall(r"3\.\d+t?", " ".join(rows))) == sorted(VERSIONS)
    paths = re.findall(r"`((?:tests|\.github|\.ci)/[\w/.-]+)`", text)
    assert len(paths) >= 6
    assert [path for path in paths if not (ROOT / path).exists()] == []
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = re.findall(r"`make ([a-z-]+)`", text)
    assert [target for target in targets if f"\n{target}:" not in makefile] == []
    assert "support.md" in (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
