"""Run the tests that need neither torch nor a browser on every Python that can be had: ``make test-pythons``.

``python -m tests.pythons [VERSION …] [-- ARGUMENTS OF PYTEST]``. Versions that lie in Debian's later releases
run in chroots (root only), all others where an interpreter is there. Environments are kept in ``.pythons/``.
"""

import argparse
import hashlib
import os
import shlex
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from . import chroots
from .interpreters import VERSIONS, interpreters

ROOT: Final = Path(__file__).resolve().parents[2]
FOLDER: Final = ROOT / ".pythons"
TESTS: Final = tuple(
    f"tests/{name}" for name in ("analysis", "comparison", "properties", "ranks", "runs", "unit")
)
"""Kernels, browsers, cards and workloads are others' matter: those tests are about them, not about Python."""
_NO_TEST: Final = 5


def requirements() -> str:
    """Return a name of what is installed: it changes with pyproject.toml and the versions that are tested."""
    files = (ROOT / "pyproject.toml", ROOT / ".ci" / "constraints.txt")
    return hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()[:16]


def pytest_command(python: str, arguments: list[str]) -> list[str]:
    """Return the command that runs the tests; paths among the arguments replace all of them."""
    options = ["--numprocesses", "logical", "--maxprocesses", "4", "--dist", "worksteal"]
    paths = [] if any(word.startswith("tests/") for word in arguments) else TESTS
    return [python, "-m", "pytest", *options, "-p", "no:cacheprovider", *arguments, *paths]


def script(python: str, folder: str, arguments: list[str], newest: bool = False) -> str:
    """Return a shell's text that makes the environment where it is not there, and runs the tests."""
    venv, made = f"{folder}/venv", f"{folder}/made-{requirements()}"
    wanted = '".[torch]"' if newest else ". --constraint .ci/constraints.txt"
    own = shlex.quote(f"{venv}/bin/python")
    install = (
        f"rm -rf {shlex.quote(venv)} {shlex.quote(folder)}/made-* && "
        f"{shlex.quote(python)} -m venv {shlex.quote(venv)} && "
        f"{own} -m pip install --quiet --upgrade pip && "
        f"{own} -m pip install --quiet --group test-without-torch -e {wanted} && "
        f"touch {shlex.quote(made)}"
    )
    run = shlex.join(pytest_command(f"{venv}/bin/python", arguments))
    is_made = "false" if newest else f"test -e {shlex.quote(made)}"
    return (
        f"mkdir -p {shlex.quote(folder)} && {{ {is_made} || {{ {install}; }} }} && "
        f"export HYPOTHESIS_STORAGE_DIRECTORY={shlex.quote(folder)}/hypothesis && "
        f"export PYTHONPYCACHEPREFIX={shlex.quote(folder)}/bytecode && exec {run}"
    )


def environment() -> dict[str, str]:
    """Return the environment without what leads to this interpreter's packages."""
    drop = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "PYENV_VERSION", "PYTHONDONTWRITEBYTECODE")
    return {name: value for name, value in os.environ.items() if name not in drop}


def run(
    version: str, paths: Mapping[str, Path], arguments: list[str], newest: bool = False
) -> tuple[str, str]:
    name = f"newest-{version}" if newest else version
    refusal = chroots.refusal() if version in chroots.SUITES else ""
    if version in chroots.SUITES and not refusal:
        suite = chroots.SUITES[version]
        where = f"chroot of {suite}"
        try:
            root = chroots.make(suite, FOLDER)
        except subprocess.CalledProcessError as error:
            return "failed", f"{where}: {error}; its log is {FOLDER.name}/{suite}.log"
        inside = script(f"/usr/bin/python{version}", f"/var/pythons/{name}", arguments, newest)
        command = chroots.command(root, ROOT, inside)
        values = environment() | {"HOME": "/root", "PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8"}
    elif version in paths:
        where = str(paths[version])
        command = ["bash", "-euc", script(where, str(FOLDER / name), arguments, newest)]
        values = environment()
    else:
        return "missing", refusal or f"no python{version} on PATH, in pyenv or in uv"
    print(f"\n=== Python {version}: {where}", flush=True)
    code = subprocess.run(command, cwd=ROOT, env=values, check=False).returncode
    return "failed" if code not in (0, _NO_TEST) else "passed", where


def main() -> int:
    """Run all versions, and say of each what became of it."""
    parser = argparse.ArgumentParser(prog="python -m tests.pythons", description=__doc__)
    parser.add_argument("versions", nargs="*", metavar="VERSION", help=f"out of {', '.join(VERSIONS)}")
    parser.add_argument("--here", action="store_true", help="on this Python, with what is installed")
    parser.add_argument("--newest", action="store_true", help="with the newest of everything, and torch")
    words = sys.argv[1:]
    own = words[: words.index("--")] if "--" in words else words
    arguments = words[len(own) + 1 :]
    options = parser.parse_args(own)
    if options.here:
        return subprocess.run(pytest_command(sys.executable, arguments), cwd=ROOT, check=False).returncode
    versions = options.versions or list(VERSIONS)
    if unknown := [one for one in versions if one not in VERSIONS]:
        parser.error(f"no version {unknown[0]!r}; choose from {', '.join(VERSIONS)}")
    FOLDER.mkdir(exist_ok=True)
    paths = interpreters()
    outcomes = {one: run(one, paths, arguments, options.newest) for one in versions}
    print()
    for version, (outcome, where) in outcomes.items():
        print(f"Python {version:5} {outcome:8} {where}")
    ran = [outcome for outcome, _ in outcomes.values() if outcome != "missing"]
    return 0 if ran and "failed" not in ran else 1


if __name__ == "__main__":
    sys.exit(main())
