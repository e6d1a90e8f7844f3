"""The Binder demo: its requirements, installed in a clean environment, run the quickstart and stories."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_binder_requirements_run_the_quickstart(tmp_path: Path) -> None:
    clean = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", clean], check=True)
    python = clean / "bin" / "python"
    # a copy: repo2docker installs from a checkout of its own, and "." must not leave build files here
    checkout = tmp_path / "checkout"
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if listed.returncode:
        pytest.skip("needs a git checkout to copy")
    for name in listed.stdout.splitlines():
        if name.startswith(("notebook_prof/", "notebooks/", "binder/")) or "/" not in name:
            (checkout / name).parent.mkdir(parents=True, exist_ok=True)
            (checkout / name).write_bytes((ROOT / name).read_bytes())
    # this environment's pip installs there; what the quickstart does not import need not be compiled
    install = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-compile"]
    subprocess.run([*install, "-r", "binder/requirements.txt"], cwd=checkout, check=True)
    # a story of pandas, one of files alone, one of torch: what only some need is there, too
    run = [python, "notebooks/run.py", "quickstart", "pandas_cell", "late_rank", "out_of_memory"]
    done = subprocess.run(run, cwd=checkout, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "`validation[] › AddmmBackward0`, made in cell:10," in done.stdout
    assert (checkout / "notebooks" / "quickstart.report.html").stat().st_size > 10_000
    pinned = (ROOT / "binder" / "requirements.txt").read_text().splitlines()
    assert all("==" in line for line in pinned if line and line[0] not in "#."), "every version is pinned"
    shutil.rmtree(clean)  # pytest would keep a gigabyte for three runs
