"""The scripts in the package are what the sources of the page build to."""

from __future__ import annotations

import json
from pathlib import Path
from typing import get_args

import pytest

from notebook_prof.views.bundle import PAGE, Entry, joined

from ..node import JS, node

ENTRIES: tuple[Entry, ...] = get_args(Entry)
HINT = "run `make js` and commit what it writes"


def _built(sources: Path, folder: Path) -> dict[str, bytes]:
    done = node("node", sources / "build.js", folder, cwd=sources)
    assert not done.returncode, done.stderr
    return _scripts(folder)


def _scripts(folder: Path) -> dict[str, bytes]:
    """Entries of a build and its chunks, by their names."""
    paths = [*folder.glob("*.js"), *folder.glob("chunks/*.js")]
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


def test_committed_scripts_are_what_the_sources_build_to(tmp_path: Path) -> None:
    committed = _scripts(PAGE)
    built = _built(JS, tmp_path)
    assert built.keys() == committed.keys(), HINT
    assert [name for name in built if built[name] != committed[name]] == [], HINT
    extension = JS / "labextension" / "static" / "remoteEntry.js"
    assert (tmp_path / "labextension" / extension.name).read_bytes() == extension.read_bytes(), HINT


@pytest.mark.parametrize("entry", ENTRIES)
def test_an_entry_behind_its_chunks_is_one_module(entry: Entry, tmp_path: Path) -> None:
    """It imports nothing, exports what the entry does, and runs: a report needs a page, which is not here."""
    (tmp_path / "entry.mjs").write_text(joined(PAGE, entry), encoding="utf-8")
    ask = "console.log(Object.keys(await import('./entry.mjs')).join())"
    done = node("node", "--input-type=module", "--eval", ask, cwd=tmp_path)
    if entry.endswith("widget"):
        assert (done.returncode, done.stdout) == (0, "default\n"), done.stderr
    else:
        assert "ReferenceError: document is not defined" in done.stderr


def test_nothing_is_in_two_scripts() -> None:
    """The committed scripts are little more than one bundle of all entries."""
    one = sum(len(content) for content in _scripts(PAGE).values())
    sent = sum(len(joined(PAGE, entry).encode()) for entry in ENTRIES)
    assert one < 300_000
    assert sent > 4 * one, "each entry has what it needs"


def test_the_lock_file_names_no_registry() -> None:
    lock = json.loads((JS / "package-lock.json").read_text(encoding="utf-8"))
    assert [name for name, package in lock["packages"].items() if "resolved" in package] == []
    version = json.loads((JS / "package.json").read_text(encoding="utf-8"))["devDependencies"]["esbuild"]
    assert lock["packages"]["node_modules/esbuild"]["version"] == version, (
        "another version writes other scripts"
    )
