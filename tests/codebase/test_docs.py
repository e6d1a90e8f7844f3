"""Pages of the documentation: links and anchors lead somewhere, each page shows something, none is left out.

The built site is looked at where MkDocs is installed, as ``make docs`` has it.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from notebook_prof import Profile
from notebook_prof.profiles.export import Export
from notebook_prof.profiles.namespace import Namespace
from notebook_prof.profiles.topics import TOPICS, Compat
from notebook_prof.testing import draw

from .source import ROOT

DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
TEXTS = [*PAGES, *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md"))]
TEXTS += sorted((ROOT / "notebooks").rglob("README.md"))
FENCE = re.compile(r"^(?P<marks>`{3,}|~{3,}).*?^(?P=marks)[ \t]*$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"!?\[[^]]*\](?:\[[^]]*\])?\((?P<to>[^)\s]+)\)")
ELSEWHERE = re.compile(r"""<(?:script|img|link|iframe)\b[^>]*\b(?:src|href)=["'](?:https?:)?//[^"']+""")


def prose(path: Path) -> str:
    """Return a page without its code."""
    text = FENCE.sub("", path.read_text(encoding="utf-8"))
    return re.sub(r"`[^`\n]*`", lambda code: code[0].replace("[", "(").replace("]", ")"), text)


def anchors(path: Path) -> set[str]:
    """Return the anchors of a page's headings, as MkDocs and GitHub make them."""
    text = FENCE.sub("", path.read_text(encoding="utf-8"))
    titles = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    plain = (re.sub(r"[^\w\s-]", "", title).strip().lower() for title in titles)
    return {re.sub(r"[-\s]+", "-", title) for title in plain}


def broken(path: Path) -> list[str]:
    """Return the links of a page within this repository that lead nowhere."""
    bad = []
    for link in LINK.finditer(prose(path)):
        file, _, anchor = link["to"].partition("#")
        if re.match(r"[a-z]+:", file):
            continue
        to = (path.parent / file).resolve() if file else path
        left = DOCS in path.parents and DOCS not in to.parents
        if not to.exists() or left or (anchor and anchor not in anchors(to)):
            bad.append(link["to"])
    return bad


def test_links_lead_somewhere() -> None:
    """To a file of this repository, to a heading in it; from the site's pages to the site's pages only."""
    assert {str(path): links for path in TEXTS if (links := broken(path))} == {}


def test_every_page_imports_the_package_before_an_example_uses_it() -> None:
    examples = {path: "\n".join(one[0] for one in FENCE.finditer(path.read_text("utf-8"))) for path in TEXTS}
    before = {path: text.partition("nbp.")[0] for path, text in examples.items() if "nbp." in text}
    assert [path for path, text in before.items() if "import notebook_prof as nbp\n" not in text] == []


def test_every_page_is_in_the_table_of_contents() -> None:
    listed = re.findall(r": (\S+\.md)$", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(listed) == [page.relative_to(DOCS).as_posix() for page in PAGES]


def test_every_picture_is_on_a_page() -> None:
    shown = {Path(link["to"].partition("#")[0]).name for path in TEXTS for link in LINK.finditer(prose(path))}
    assert {path.name for path in (DOCS / "images").iterdir()} - shown == set()


def test_the_groups_of_a_profile_are_all_there_is() -> None:
    """`docs/profile.md` names everything public of a Profile and of its namespaces, and nothing else."""
    profile = Profile(draw("main: [mm ]"))
    kinds: tuple[type[Namespace], ...] = (*TOPICS, Export, Compat)
    spaces = {kind.path: set(kind.members()) for kind in kinds}
    called = {path for path in spaces if callable(getattr(profile, path))}
    public = {name for name in dir(profile) if name[0] != "_"} - (spaces.keys() - called)
    public |= {f"{path}.{member}" for path, members in spaces.items() for member in members}
    rows = re.findall(r"^\| (`.+?) \|", (DOCS / "profile.md").read_text(encoding="utf-8"), re.MULTILINE)
    whole = re.sub(r"`\.(\w+)\(", r"`p.mindspore.\1(", "\n".join(rows))  # one row shortens two of them
    assert set(re.findall(r"`p\.([\w.]+)", whole)) == public


def test_the_reference_has_every_namespace() -> None:
    text = (DOCS / "reference.md").read_text(encoding="utf-8")
    listed = re.search(r"members: \[(.+)\]", text)
    assert listed is not None
    assert listed[1].split(", ") == [kind.__name__ for kind in TOPICS]


@pytest.mark.skipif(find_spec("mkdocs") is None, reason="MkDocs is not installed: make docs runs this")
def test_the_site_is_built_and_loads_nothing_from_elsewhere(tmp_path: Path) -> None:
    """A link or anchor that leads nowhere fails. Stories are left to the build that has a kernel."""
    build = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path)]
    env = {**os.environ, "NBP_SITE_STORIES": ""}
    done = subprocess.run(build, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    built = {path: path.read_text(encoding="utf-8") for path in tmp_path.rglob("*.html")}
    assert len(built) > len(PAGES)
    assert {str(path): hits for path, text in built.items() if (hits := ELSEWHERE.findall(text))} == {}
