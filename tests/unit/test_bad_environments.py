"""Packages that are missing, out of bounds or broken: one sentence says which, and what helps."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

import notebook_prof
from notebook_prof import optional
from notebook_prof.errors import ExtraNotInstalledError

from ..new_process import run_python

ROOT = Path(notebook_prof.__file__).parents[1]
NEEDED = ["left-pad>=2,<3", "whole>=1", 'duck-db>=1.1; extra == "sql"']
AGAIN = ': pip install --force-reinstall "duck-db>=1.1"'


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of packages, and what ours needs of them."""
    monkeypatch.setattr(optional.metadata, "requires", lambda name: NEEDED)
    monkeypatch.syspath_prepend(str(tmp_path))
    optional._wrong_version.cache_clear()
    return tmp_path


def install(site: Path, name: str, version: str, code: str | None = "") -> None:
    """Install a package; without code as an interrupted installation leaves it."""
    package = site / name.replace("-", "_")
    package.mkdir()
    if code is not None:
        (package / "__init__.py").write_text(code)
    folder = site / f"{package.name}-{version}.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")


def refused() -> str:
    """Return the sentence with which the import of an extra's module is refused."""
    for name in [name for name in sys.modules if name.startswith("duck_db")]:
        del sys.modules[name]
    with pytest.raises(ExtraNotInstalledError) as error:
        optional.require("duck_db", extra="sql", purpose="p.sql()")
    return str(error.value)


@pytest.mark.parametrize(
    ("version", "code", "wrong"),
    [
        ("", "", 'which is not installed: pip install "notebook-prof[sql]"'),
        ("0.9", "", 'and duck-db 0.9 is installed: pip install "duck-db>=1.1"'),
        (
            "1.2",
            "raise OSError('no libduck.so')",
            "and duck-db 1.2 is broken (OSError: no libduck.so)" + AGAIN,
        ),
        ("1.2", None, "and duck-db 1.2 is broken (its files are missing)" + AGAIN),
    ],
)
def test_an_extra_that_cannot_be_used(site: Path, version: str, code: str | None, wrong: str) -> None:
    if version:
        install(site, "duck-db", version, code)
    assert refused() == f"p.sql() needs duck-db>=1.1, {wrong}"


def test_what_the_core_needs(site: Path) -> None:
    install(site, "whole", "1.5rc1")
    missing = 'notebook_prof needs left-pad<3,>=2, which is not installed: pip install "left-pad<3,>=2"'
    assert optional.wrong_requirements() == [missing]
    install(site, "left-pad", "3.1")
    (old,) = optional.wrong_requirements()
    assert old.startswith("notebook_prof needs left-pad<3,>=2, and left-pad 3.1 is installed: pip install ")


LOAD = """
import json, sys, warnings
for name in BLOCKED:
    sys.modules[name] = None
from IPython.core.interactiveshell import InteractiveShell
from notebook_prof import optional
optional.wrong_requirements = lambda: ["notebook_prof needs left-pad>=2, and left-pad 1 is installed: pip …"]
shell = InteractiveShell.instance()
with warnings.catch_warnings(record=True) as warned:
    warnings.simplefilter("always")
    done = shell.run_cell("%load_ext notebook_prof")
said = [str(one.message) for one in warned]
print(json.dumps([type(done.error_in_exec).__name__, str(done.error_in_exec), said]))
"""


@pytest.mark.parametrize("blocked", [[], ["numpy"]])
def test_the_extension_says_what_is_wrong(blocked: list[str]) -> None:
    """It is loaded where it can be, with a warning; else the same sentence is the error."""
    program = LOAD.replace("BLOCKED", repr(blocked))
    kind, error, said = json.loads(run_python(program, cwd=ROOT).stdout.splitlines()[-1])
    sentence = "notebook_prof needs left-pad>=2, and left-pad 1 is installed: pip …"
    assert (kind, error) == (("ImportError", sentence) if blocked else ("NoneType", "None"))
    assert [one for one in said if "left-pad" in one] == ([] if blocked else [sentence])
