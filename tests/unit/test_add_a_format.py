"""The example of `docs/add-a-format.md` is a package that works."""

from __future__ import annotations

import doctest
import os
import re
from pathlib import Path

import pytest

from ..new_process import run_python

PAGE = Path(__file__).parents[2] / "docs" / "add-a-format.md"
FENCES = re.findall(r"^```(\w*)\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
FILE, PACKAGE, PROJECT, SESSION = (text for _, text in FENCES)


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """A folder with the package, what pip makes of its entry points, and a file to open."""
    (tmp_path / "tinylog.py").write_text(PACKAGE)
    registered = re.sub(r"\[project\.entry-points\.(.*)\]", r"[\1]", PROJECT).replace('"', "")
    information = tmp_path / "tinylog-1.dist-info"
    information.mkdir()
    (information / "entry_points.txt").write_text(registered)
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: tinylog\nVersion: 1\n")
    (tmp_path / "served.log").write_text(FILE)
    return tmp_path


def run(folder: Path, code: str) -> str:
    path = os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH")])])
    return run_python(code, cwd=folder, env={**os.environ, "PYTHONPATH": path}).stdout


def test_the_session_is_as_it_is_printed(installed: Path) -> None:
    examples = doctest.DocTestParser().get_examples(SESSION)
    assert len(examples) == 6
    (installed / "session.txt").write_text(SESSION)
    code = "import doctest; print(doctest.testfile('session.txt', module_relative=False, verbose=False))"
    assert run(installed, code) == "TestResults(failed=0, attempted=6)\n"


def test_tab_names_and_damage(installed: Path) -> None:
    """The tab is in the rail, names are listed; what cannot be read is counted or refused."""
    (installed / "cut.log").write_bytes(b"tinylog 1\n0 0 4 a\n0 5")
    (installed / "empty.log").write_bytes(b"tinylog 1\n")
    code = (
        "import notebook_prof as nbp\n"
        "from notebook_prof.views.tabs import TABS\n"
        "p = nbp.open_profile('served.log')\n"
        "print(list(TABS)[-1], TABS['requests'].build(p.trace, {}).parts[0].frame['dur'].tolist())\n"
        "listed = ({*nbp.list_formats()['format']}, dir(p), dir(p.compat))\n"
        "print(['tinylog' in names for names in listed])\n"
        "print(dir(p.tinylog), list(p.trace.report))\n"
        "print([(issue.code, issue.count) for issue in nbp.read_trace('cut.log').report])\n"
        "try:\n    nbp.read_trace('empty.log')\nexcept nbp.NotebookProfError as error:\n    print(error)"
    )
    assert run(installed, code).splitlines() == [
        "requests [40000000]",
        "[True, True, True]",
        "['requests'] []",
        "[('broken-row', 1)]",
        "empty.log: tinylog without a span: was it cut?",
    ]
