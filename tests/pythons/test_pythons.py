"""What runs the tests on other Pythons: which it finds, what it binds, what it says where it cannot."""

from __future__ import annotations

import doctest
import os
import sys
from pathlib import Path

import pytest

from . import __main__ as program
from . import chroots, interpreters


def test_the_versions_are_those_that_the_package_supports() -> None:
    text = (program.ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert f'requires-python = ">={interpreters.VERSIONS[0]}"' in text
    assert set(chroots.SUITES) <= set(interpreters.VERSIONS)


def test_examples_run() -> None:
    assert doctest.testmod(chroots).failed == 0
    assert doctest.testmod(interpreters).failed == 0


@pytest.mark.skipif(sys.platform == "win32", reason="a script of a shell")
def test_an_interpreter_counts_if_it_runs_and_is_what_its_name_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = f"{sys.version_info.major}.{sys.version_info.minor}"
    other = "3.10" if own != "3.10" else "3.12"
    for version in (own, other):
        (tmp_path / f"python{version}").symlink_to(sys.executable)
    shim = tmp_path / "python3.14t"
    shim.write_text("#!/bin/sh\nexit 127\n")
    shim.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path / "none"))
    assert interpreters.interpreter(own) == tmp_path / f"python{own}"
    assert interpreters.interpreter(other) is None
    assert interpreters.interpreter("3.14t") is None
    assert interpreters.version_of(tmp_path / "nothing") == ""


def test_who_may_make_no_chroot_is_told_so_and_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000, raising=False)
    assert chroots.refusal() == "a chroot needs root: run it as root, or have the interpreter on PATH"
    assert program.run("3.14", {}, []) == ("missing", chroots.refusal())
    assert program.run("3.10", {}, []) == ("missing", "no python3.10 on PATH, in pyenv or in uv")
    monkeypatch.setattr(os, "geteuid", lambda: 0, raising=False)
    monkeypatch.setattr(
        chroots.shutil, "which", lambda name: None if name == "debootstrap" else f"/bin/{name}"
    )
    assert chroots.refusal() == "a chroot needs debootstrap: apt-get install debootstrap util-linux"
    monkeypatch.setattr(chroots.shutil, "which", lambda name: f"/bin/{name}")
    monkeypatch.setattr(chroots, "mirror", lambda: "")
    assert chroots.refusal() == "a chroot needs a mirror of Debian, and apt's sources name none"


def test_no_version_at_all_is_a_failure(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(program, "interpreters", dict)
    monkeypatch.setattr(sys, "argv", ["pythons", "3.10", "3.12"])
    assert program.main() == 1
    lines = capsys.readouterr().out.strip().splitlines()
    assert lines == [
        "Python 3.10  missing  no python3.10 on PATH, in pyenv or in uv",
        "Python 3.12  missing  no python3.12 on PATH, in pyenv or in uv",
    ]


def test_the_repository_cannot_be_written_to_from_inside(tmp_path: Path) -> None:
    (tmp_path / "root" / "etc").mkdir(parents=True)
    repository = tmp_path / "repository"
    (tmp_path / "shared").mkdir()
    repository.mkdir()
    *_, script = chroots.command(tmp_path / "root", repository, "true")
    inside = tmp_path / "root" / "src"
    for folder in (inside / "repository", inside / "shared"):
        assert f"mount -o remount,bind,ro {folder}" in script
    assert script.startswith("mount --make-rprivate / && ")
    assert script.endswith(f"exec chroot {tmp_path}/root /bin/bash -c 'cd /src/repository && true'")


def test_paths_among_the_arguments_replace_all_tests() -> None:
    assert program.pytest_command("python", ["-x"])[-len(program.TESTS) :] == list(program.TESTS)
    assert program.pytest_command("python", ["tests/unit/test_units.py"])[-1] == "tests/unit/test_units.py"
    assert all((program.ROOT / folder).is_dir() for folder in program.TESTS)
