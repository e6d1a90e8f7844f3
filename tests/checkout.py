"""Copies the checkout, for programs that build in it and leave files behind."""

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


def copy_checkout(target: Path, *folders: str) -> None:
    """Copy what git tracks or would add of these folders and the top level; skip the test without git."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("needs a git checkout to copy")
    for name in listed.stdout.splitlines():
        if (name.startswith(folders) or "/" not in name) and (ROOT / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            (target / name).write_bytes((ROOT / name).read_bytes())
