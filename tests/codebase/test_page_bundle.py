"""The scripts in the package are what the sources of the page build to."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from notebook_prof.views.bundle import PAGE

from ..node import JS, node

HINT = "run `make js` and commit what it writes"


def _built(sources: Path, folder: Path) -> dict[str, bytes]:
    done = node("node", sources / "build.js", folder, cwd=sources)
    assert not done.returncode, done.stderr
    return {path.name: path.read_bytes() for path in folder.glob("*.js")}


def test_committed_scripts_are_what_the_sources_build_to(tmp_path: Path) -> None:
    committed = {path.name: path.read_bytes() for path in PAGE.glob("*.js")}
    built = _built(JS, tmp_path)
    assert built.keys() == committed.keys(), HINT
    assert [name for name in built if built[name] != committed[name]] == [], HINT
    extension = JS / "labextension" / "static" / "remoteEntry.js"
    assert (tmp_path / "labextension" / extension.name).read_bytes() == extension.read_bytes(), HINT


def test_a_changed_source_builds_to_another_script(tmp_path: Path) -> None:
    sources = tmp_path / "js"
    shutil.copytree(JS, sources, ignore=shutil.ignore_patterns("node_modules"))
    before = _built(JS, tmp_path / "before")
    (sources / "node_modules").symlink_to(JS / "node_modules", target_is_directory=True)
    path = sources / "src" / "shared" / "elements.js"
    path.write_text(path.read_text(encoding="utf-8").replace("el.className = ", "el.title = "))
    after = _built(sources, tmp_path / "after")
    assert [name for name in after if before[name] == after[name]] == []


def test_the_lock_file_names_no_registry() -> None:
    lock = json.loads((JS / "package-lock.json").read_text(encoding="utf-8"))
    assert [name for name, package in lock["packages"].items() if "resolved" in package] == []
    version = json.loads((JS / "package.json").read_text(encoding="utf-8"))["devDependencies"]["esbuild"]
    assert lock["packages"]["node_modules/esbuild"]["version"] == version, (
        "another version writes other scripts"
    )
