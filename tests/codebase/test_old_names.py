"""Nothing that a user reads tells a name that has been replaced."""

from __future__ import annotations

import re
from pathlib import Path

from notebook_prof.analysis.method_names import METHODS
from notebook_prof.profiles.renamed import RENAMED

from .source import PACKAGE, ROOT

WHERE_THEY_ARE = {
    PACKAGE / "profiles" / "renamed.py",
    ROOT / "tests" / "unit" / "test_namespaces.py",
    Path(__file__),
}
KINDS = {".py", ".js", ".md", ".ipynb"}
READ = sorted(
    path
    for top in ("notebook_prof", "docs", "notebooks", "benchmarks", "tests", "binder", "README.md")
    for path in ([ROOT / top] if (ROOT / top).is_file() else (ROOT / top).rglob("*"))
    if path.suffix in KINDS and path not in WHERE_THEY_ARE and ROOT / "tests" / "data" not in path.parents
    if "node_modules" not in path.parts
)
OLD = "|".join(sorted(RENAMED, key=len, reverse=True))
CALLED = re.compile(
    rf"(?<![\w.])(?:p|profile|Profile|nbp\.last|Profile\([^\n]*\)|open_profile\([^\n]*\))\.(?:{OLD})\b"
)
"""A call of an old name: of ``p``, of a Profile, of what opens one."""
WORDS = {old for old, new in RENAMED.items() if old not in METHODS and new.split(".")[-1] != old}
"""Old names that are not those of functions of `analysis`, or of members of a namespace."""
QUOTED = re.compile(rf"`({'|'.join(WORDS - {'table', 'to_html'})})(?:\(\))?`")
"""Old names in prose; a page of ranks has ``to_html``."""


def old_names(text: str) -> list[str]:
    """Where a text tells an old name."""
    return [match[0] for pattern in (CALLED, QUOTED) for match in pattern.finditer(text)]


def test_no_text_tells_an_old_name() -> None:
    names_of = {path: old_names(path.read_text(encoding="utf-8", errors="replace")) for path in READ}
    allowed = "`export_stacks`"  # the writer's function
    assert {str(path): names for path, names in names_of.items() if set(names) - {allowed}} == {}


def test_old_names_are_seen() -> None:
    assert old_names("see `p.memory_peak()`, p.step_trace(), Profile(trace).to_html and `to_png`") == [
        "p.memory_peak",
        "p.step_trace",
        "Profile(trace).to_html",
        "`to_png`",
    ]
    assert not old_names(
        "p.memory.peak(), ranks.to_html(path), p.plot.roofline(), `memory_peak`, analysis.copies"
    )
