"""A copy of the checkout, for programs that build from one and may leave files in it."""

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


def copy_checkout(target: Path, *folders: str) -> None:
    """Copy what git has, or would take, of these folders and beside them; skip where there is no git."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("needs a git checkout to copy")
    for name in listed.stdout.splitlines():
        if (name.startswith(folders) or "/" not in name) and (ROOT / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            (target / name).write_bytes((ROOT / name).read_bytes())
