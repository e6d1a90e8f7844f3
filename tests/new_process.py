"""Runs Python programs in new processes."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from typing import Any


def run_python(
    program: str, *arguments: object, check: bool = True, **options: Any
) -> subprocess.CompletedProcess[str]:
    """Run a program and return its output. With `check`, it must exit with 0."""
    command = [sys.executable, "-c", textwrap.dedent(program), *map(str, arguments)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, **{"timeout": 600, **options})
    assert not check or ran.returncode == 0, (ran.returncode, ran.stderr[-3000:])
    return ran
