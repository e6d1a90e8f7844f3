"""Runs of the history whose recording was not kept."""

from __future__ import annotations

import json
import os
import zlib
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Final, NoReturn

import numpy as np
import pandas as pd

from ..comparison.parts import MOST_KEYS, StepParts, limited
from ..comparison.run import Summary
from ..errors import HistoryError, NotRecordedError, OptionError
from ..profiles.profile import Profile
from ..statistics import slow_steps
from ..units import format_items, format_ns
from .folder import make_folder
from .store import Store

# Recordings kept as files beside the history: ``%%profile --keep``.

FOLDER: Final = "kept"
SUFFIX: Final = ".nbprof.zip"
LIMIT: Final = 1 << 30
"""Limit in bytes for all kept recordings. Beyond it, the oldest are deleted."""


def kept_path(folder: Path, name: str) -> Path:
    """Return the path of a recording, given its name in the history."""
    return folder / FOLDER / os.path.basename(name)


def keep(folder: Path, profile: Profile, name: str, limit: int = LIMIT) -> str:
    """Save a recording under a unique name, and return the file name."""
    make_folder(folder)
    path = kept_path(folder, name + SUFFIX)
    path.parent.mkdir(exist_ok=True, mode=0o700)
    profile.save(path)
    # the oldest recordings beyond `limit` bytes are deleted
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


# The totals of a run as compressed JSON: at most 20 kB per row, without rounding.

MOST_BYTES: Final = 19_000
"""Limit for source, steps and totals together. With the other columns, a row stays below 20 kB."""
_MOST_SOURCE: Final = 6_000
_MEMORY: Final = ("device", "source", "bytes")


def packed(summary: Summary) -> tuple[bytes, bytes]:
    """Compress the source and the rest of a summary. The smallest totals are dropped until both fit."""
    # together they have at most `MOST_BYTES`; a source of more than 6 kB when compressed is left out
    source = zlib.compress(summary.source.encode("utf-8", "replace"), 6)
    source = source if len(source) <= _MOST_SOURCE else zlib.compress(b"")
    keys = MOST_KEYS
    content = _content(summary)
    while len(content) + len(source) > MOST_BYTES:
        if keys > 3:
            keys //= 2
            summary = replace(
                summary, totals={name: limited(whole, keys) for name, whole in summary.totals.items()}
            )
        else:
            summary = replace(summary, steps=summary.steps.iloc[::2].reset_index(drop=True))
        content = _content(summary)
    return source, content


def unpacked(source: bytes, content: bytes, title: str) -> Summary:
    """Read the output of `packed`, as the run `title`."""
    # ValueError, KeyError or zlib.error for other bytes
    whole = json.loads(zlib.decompress(content))
    dur, step, used = (np.array(whole[name], np.int64) for name in ("dur_ns", "step", "used"))
    used = used.astype(bool)
    slow = np.zeros(len(dur), bool)
    slow[used] = slow_steps(dur[used].astype(np.float64))
    ts = np.cumsum(np.append(0, dur[:-1]))[: len(dur)]
    columns = {"step": np.cumsum(step), "ts": ts, "dur_ns": dur, "used": used, "slow": slow}
    totals = {}
    for name, (keys, sums, calls, block_steps) in whole["totals"].items():
        shaped = np.array(sums, np.int64).reshape(len(block_steps), len(keys))
        counts = (np.array(values, np.int64) for values in (calls, block_steps))
        totals[name] = StepParts([tuple(key) for key in keys], shaped, *counts)
    memory = pd.DataFrame(whole["memory"], columns=list(_MEMORY))
    text = zlib.decompress(source).decode("utf-8")
    return Summary(pd.DataFrame(columns), totals, text, whole["conditions"], memory, title)


def _content(summary: Summary) -> bytes:
    steps = summary.steps
    rows = summary.memory[list(_MEMORY)].astype({"device": "int64", "source": "str", "bytes": "int64"})
    whole = {
        "dur_ns": steps["dur_ns"].tolist(),
        # the differences are mostly 1, so they compress well
        "step": np.diff(steps["step"].to_numpy(np.int64), prepend=0).tolist(),
        "used": steps["used"].astype(int).tolist(),
        "totals": {
            name: [part.keys, part.sums.tolist(), part.calls.tolist(), part.block_steps.tolist()]
            for name, part in summary.totals.items()
        },
        "conditions": dict(summary.conditions),
        "memory": rows.to_numpy(dtype=object).tolist(),
    }
    text = json.dumps(whole, ensure_ascii=False, separators=(",", ":"))
    return zlib.compress(text.encode("utf-8", "replace"), 6)


@dataclass(frozen=True, eq=False, repr=False)
class HistoryRun(Summary):
    """A run of the history, without its recording; accepted by `notebook_prof.compare`.

    Attributes
    ----------
    run : int
        Its number in `notebook_prof.history`.
    name, kernel, notebook, cell, cell_hash, options, environment : str
        As in `notebook_prof.history`.
    load, core_share, p50_ns : float or None
    at_ns, used_steps : int
    """

    run: int = 0
    name: str = ""
    kernel: str = ""
    notebook: str = ""
    cell: str = ""
    cell_hash: str = ""
    options: str = ""
    environment: str = ""
    load: float | None = None
    core_share: float | None = None
    p50_ns: float | None = None
    at_ns: int = 0
    used_steps: int = 0

    def __repr__(self) -> str:
        what = "its steps took" if self.used_steps > 1 else "it took"
        took = "" if self.p50_ns is None else f": {what} {format_ns(self.p50_ns)}"
        took += f" ({format_items(self.used_steps, 'step')}, median)" if self.used_steps > 1 else ""
        return f"{self.title}{took}. {_WITHOUT}"

    def __getattr__(self, name: str) -> NoReturn:
        # reached only for attributes that this class lacks, which a Profile may have
        if name.startswith("_") or not hasattr(Profile, name):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        raise NotRecordedError(f"{name} is not available for {self.title}. {_WITHOUT}")


_STORED: Final = {"run": "id", "used_steps": "steps"}
_WITHOUT = "Its recording was not kept (%%profile --keep does); nbp.compare() accepts its totals."


def read_run(store: Store, run: int) -> HistoryRun:
    """Read a run. Raises OptionError for an unknown number, HistoryError for an unreadable file or row."""
    names = [field.name for field in fields(HistoryRun)[len(fields(Summary)) :]]
    stored = (_STORED.get(name, name) for name in names)
    rows = store.select(", ".join([*stored, "source", "content"]), "WHERE id = ?", (run,))
    if not rows:
        numbers = store.select("min(id), max(id)")
        first, last = numbers[0] if numbers else (None, None)
        there = "it is empty" if first is None else f"it has {first} to {last}, except deleted ones"
        raise OptionError(f"the history has no run {run}: {there}")
    *values, source, content = rows[0]
    columns: dict[str, Any] = dict(zip(names, values, strict=True))
    title = f"run {run} of the history" + (f" ({columns['name']})" if columns["name"] else "")
    try:
        summary = unpacked(source, content, title)
    except (ValueError, KeyError, IndexError, zlib.error) as error:
        raise HistoryError(f"{title} is damaged: {type(error).__name__}: {error}") from error
    return HistoryRun(**{field.name: getattr(summary, field.name) for field in fields(Summary)}, **columns)
