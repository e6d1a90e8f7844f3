"""The one file that comes back from a card: what became of every job, and small recordings."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final

from .outcomes import Outcome

MOST_BYTES: Final = 15 << 20
_OUTCOMES: Final = "outcomes.json"
_RECORDINGS: Final = "recordings/"
_LEFT_OUT: Final = "left_out.txt"


@dataclass(frozen=True)
class Archive:
    """What an archive holds: outcomes by job, and files by name."""

    outcomes: dict[str, Outcome] = field(default_factory=dict)
    files: dict[str, bytes] = field(default_factory=dict)


def read(path: Path) -> Archive:
    """Return what an archive holds; nothing where there is none."""
    if not path.is_file():
        return Archive()
    with zipfile.ZipFile(path) as file:
        rows = json.loads(file.read(_OUTCOMES))
        names = [name for name in file.namelist() if name.startswith(_RECORDINGS)]
        files = {name.removeprefix(_RECORDINGS): file.read(name) for name in names}
    return Archive({one["name"]: Outcome(**one) for one in rows}, files)


def write(
    path: Path, outcomes: Iterable[Outcome], files: Mapping[str, bytes], most_bytes: int = MOST_BYTES
) -> list[str]:
    """Replace the archive at once, so that a call that is cut off leaves what it had.

    Returns
    -------
    list of str
        Files for which there was no room; the first ones teach most and are kept.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    text = json.dumps([asdict(one) for one in outcomes], indent=1, ensure_ascii=False)
    left_out, room = [], most_bytes
    with zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr(_OUTCOMES, text)
        room -= file.getinfo(_OUTCOMES).compress_size
        for name, content in files.items():
            if len(content) > room:
                left_out.append(name)
                continue
            # recordings are compressed already
            file.writestr(_RECORDINGS + name, content, compress_type=zipfile.ZIP_STORED)
            room -= len(content)
        if left_out:
            file.writestr(_LEFT_OUT, "\n".join(left_out) + "\n")
    part.replace(path)
    return left_out
