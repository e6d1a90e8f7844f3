"""The Binder demo: what its requirements bring, and nothing else, runs the quickstart and stories."""

import os
import shutil
import subprocess
import sys
from collections import Counter
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from tests.checkout import copy_checkout

ROOT = Path(__file__).parents[2]
STORIES = ("quickstart", "late_rank")
"""One of torch with a report, and one of files that prints what it found; others import nothing else."""
CPU_INDEX = "--extra-index-url https://download.pytorch.org/whl/cpu"


def wanted(pins: list[str]) -> dict[str, metadata.Distribution] | None:
    """Return what pip would install for these pins and this package; None where that is not here."""
    chosen: dict[str, metadata.Distribution] = {}
    ahead = [Requirement(pin) for pin in (*pins, "notebook-prof")]
    while ahead:
        requirement = ahead.pop()
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": ""}):
            continue
        name = canonicalize_name(requirement.name)
        try:
            one = metadata.distribution(name)
        except metadata.PackageNotFoundError:
            return None
        if not requirement.specifier.contains(one.version, prereleases=True):
            return None
        if name not in chosen:
            chosen[name] = one
            ahead += map(Requirement, one.requires or ())
        for extra in requirement.extras:
            lines = map(Requirement, one.requires or ())
            ahead += [line for line in lines if line.marker and line.marker.evaluate({"extra": extra})]
    return chosen


def link(into: Path, wanted_ones: dict[str, metadata.Distribution]) -> None:
    """Link the files of distributions of this environment into a clean one."""
    tops = {
        one.name: {file.parts[0] for file in one.files or ()} - {"..", "__pycache__"}
        for one in metadata.distributions()
    }
    shared = Counter(top for parts in tops.values() for top in parts)
    (packages,) = into.glob("lib/python*/site-packages")
    for one in wanted_ones.values():
        if canonicalize_name(one.name) == "notebook-prof":
            continue  # its own checkout is installed
        for file in one.files or ():
            top, original = file.parts[0], Path(file.locate())
            if top == "..":
                inside = Path(*[part for part in file.parts if part != ".."])
                if inside.parts[0] == "bin" and original.read_bytes()[:2] == b"#!":
                    continue  # it would run the other environment
                new, old = into / inside, original
            elif shared[top] > 1 and len(file.parts) > 1:
                new, old = packages / file, original
            else:
                new, old = packages / top, Path(one.locate_file(top))
            if not new.exists() and old.exists():
                new.parent.mkdir(parents=True, exist_ok=True)
                new.symlink_to(old.resolve())


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_binder_requirements_run_the_quickstart(tmp_path: Path) -> None:
    clean = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", clean], check=True)
    python = clean / "bin" / "python"
    # a copy: repo2docker installs from a checkout of its own, and "." must not leave build files here
    checkout = tmp_path / "checkout"
    copy_checkout(checkout, "notebook_prof/", "notebooks/", "binder/", "js/labextension/")
    pins = _pins()
    # whichever index this machine has: here PyTorch's own may be out of reach
    (checkout / "binder" / "requirements.txt").write_text("\n".join([*pins, "."]))
    # this environment's pip installs there; what the quickstart does not import need not be compiled
    install = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-compile"]
    if (ready := wanted(pins)) is None:
        subprocess.run([*install, "-r", "binder/requirements.txt"], cwd=checkout, check=True)
    else:  # unpacking a gigabyte that lies here already takes a minute
        link(clean, ready)
        subprocess.run([*install, "--no-deps", "."], cwd=checkout, check=True)
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    run = [python, "notebooks/run.py", *STORIES]
    done = subprocess.run(run, cwd=checkout, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "Rank 5 comes last to 5 of 5 collectives," in done.stdout
    assert (checkout / "notebooks" / "quickstart.report.html").stat().st_size > 10_000
    shutil.rmtree(clean)  # pytest would keep a gigabyte for three runs


def _pins() -> list[str]:
    lines = (ROOT / "binder" / "requirements.txt").read_text().splitlines()
    return [line for line in lines if line and line[0] not in "#.-"]


def test_versions_are_pinned_and_pytorch_comes_without_cuda() -> None:
    """A plain torch of PyPI requires NVIDIA's libraries, under which the public service's build dies."""
    text = (ROOT / "binder" / "requirements.txt").read_text()
    assert [line for line in text.splitlines() if line.startswith("-")] == [CPU_INDEX]
    pins = {one.name: one.specifier for one in map(Requirement, _pins())}
    assert all(len(pin) == 1 and next(iter(pin)).operator == "==" for pin in pins.values())
    version = next(iter(pins["torch"])).version
    assert max(Version(version), Version(f"{version}+cpu")) == Version(f"{version}+cpu")
    assert pins["torch"].contains(f"{version}+cpu"), "or pip would not take PyTorch's own"


def test_the_reference_image_is_made_of_the_same_files() -> None:
    """And repo2docker does not take it: it would look for a file of the name Dockerfile."""
    binder = ROOT / "binder"
    text = (binder / "reference.Dockerfile").read_text()
    python = (binder / "runtime.txt").read_text().strip()
    assert f"FROM {python.replace('-', ':')}-slim\n" in text
    assert "pip install --no-cache-dir -r binder/requirements.txt" in text
    assert "timeout 120 bash binder/postBuild" in text
    assert not (binder / "Dockerfile").exists()
