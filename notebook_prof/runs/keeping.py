"""Recordings kept as files beside the history: ``%%profile --keep``."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

from ..profiles.profile import Profile
from .folder import make_folder

FOLDER: Final = "kept"
SUFFIX: Final = ".nbprof.zip"
LIMIT: Final = 1 << 30
"""Limit in bytes for all kept recordings. Beyond it, the oldest are deleted."""


def kept_path(folder: Path, name: str) -> Path:
    """Return the path of a recording, given its name in the history."""
    return folder / FOLDER / os.path.basename(name)


def keep(folder: Path, profile: Profile, name: str, limit: int = LIMIT) -> str:
    """Save a recording under a unique name, and delete the oldest recordings beyond `limit` bytes. Returns
    the file name."""
    make_folder(folder)
    path = kept_path(folder, name + SUFFIX)
    path.parent.mkdir(exist_ok=True, mode=0o700)
    profile.save(path)
    files = []
    for file in path.parent.glob(f"*{SUFFIX}"):
        with suppress(OSError):
            files.append((file.stat().st_mtime_ns, file.stat().st_size, file))
    total = sum(size for _, size, _ in files)
    for _, size, file in sorted(files):
        if total <= limit:
            break
        if file != path:
            with suppress(OSError):
                file.unlink()
                total -= size
    return path.name
