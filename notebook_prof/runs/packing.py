"""The totals of a run as bytes: at most 20 kB a row, exact for what is kept."""

from __future__ import annotations

import json
import zlib
from dataclasses import replace
from typing import Any, Final

import numpy as np
import pandas as pd

from ..comparison.parts import MOST_KEYS, Parts, limited
from ..comparison.run import Summary
from ..statistics.steps import slow_steps
from ..trace.arrays import IntArray

MOST_BYTES: Final = 19_000
"""Of source, steps and totals; with the other columns a row stays below 20 kB."""
_MOST_SOURCE: Final = 6_000
_MEMORY: Final = ("device", "source", "bytes")


def packed(summary: Summary) -> tuple[bytes, bytes]:
    """Write the source and the rest of a summary; the smallest totals go first where they are too much.

    Returns
    -------
    (bytes, bytes)
        Together at most `MOST_BYTES`. A source that takes more than 6 kB when compressed is left out.
    """
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
    """Read what `packed` wrote.

    Parameters
    ----------
    source, content : bytes
    title : str
        What to call the run.

    Raises
    ------
    ValueError, KeyError, zlib.error
        If these are other bytes.

    Examples
    --------
    >>> from notebook_prof.comparison.run import TraceRun, summary_of
    >>> from notebook_prof.profiles.profile import Profile
    >>> from notebook_prof.testing import draw
    >>> summary = summary_of(TraceRun(Profile(draw("main: [mm      ][add ]"))), "mm(); add()")
    >>> again = unpacked(*packed(summary), "a run")
    >>> again.source, again.totals["operators"].total.tolist()
    ('mm(); add()', [10, 6])
    """
    whole = zlib.decompress(content)
    size = int.from_bytes(whole[:4], "little")
    head = json.loads(whole[4 : 4 + size])
    numbers = _Numbers(whole[4 + size :])
    dur, step = numbers.take(head["steps"]), np.cumsum(numbers.take(head["steps"]))
    used = numbers.take(head["steps"]).astype(bool)
    slow = np.zeros(len(dur), bool)
    slow[used] = slow_steps(dur[used].astype(np.float64))
    ts = np.cumsum(np.append(0, dur[:-1]))[: len(dur)]
    columns = {"step": step.astype(np.int64), "ts": ts, "dur_ns": dur, "used": used, "slow": slow}
    totals = {}
    for name, keys, blocks in head["totals"]:
        sums = numbers.take(blocks * len(keys)).reshape(blocks, len(keys))
        totals[name] = Parts(
            [tuple(key) for key in keys], sums, numbers.take(len(keys)), numbers.take(blocks)
        )
    memory = pd.DataFrame(head["memory"], columns=list(_MEMORY))
    text = zlib.decompress(source).decode("utf-8")
    return Summary(pd.DataFrame(columns), totals, text, head["conditions"], memory, title)


class _Numbers:
    """Whole numbers, their lowest bytes first: upper bytes are mostly zero, and shrink to nothing."""

    def __init__(self, planes: bytes) -> None:
        plane = np.frombuffer(planes, np.uint8).reshape(8, -1)
        self._values = np.ascontiguousarray(plane.T).view("<i8").ravel().astype(np.int64)
        self._at = 0

    def take(self, count: int) -> IntArray:
        """Return the next so many."""
        self._at += count
        return self._values[self._at - count : self._at]


def _content(summary: Summary) -> bytes:
    steps = summary.steps
    numbers: list[Any] = [
        steps["dur_ns"].to_numpy(np.int64),
        np.diff(steps["step"].to_numpy(np.int64), prepend=0),
        steps["used"].to_numpy(np.int64),
    ]
    totals = []
    for name, whole in summary.totals.items():
        totals.append([name, whole.keys, len(whole.block_steps)])
        numbers += [whole.sums.ravel(), whole.calls, whole.block_steps]
    rows = summary.memory[list(_MEMORY)].astype({"device": "int64", "source": "str", "bytes": "int64"})
    head = json.dumps(
        {
            "steps": len(steps),
            "totals": totals,
            "conditions": dict(summary.conditions),
            "memory": rows.to_numpy(dtype=object).tolist(),
        },
        ensure_ascii=False,
    ).encode("utf-8", "replace")
    values = np.concatenate(numbers).astype("<i8")
    planes = np.ascontiguousarray(values.view(np.uint8).reshape(-1, 8).T).tobytes()
    return zlib.compress(len(head).to_bytes(4, "little") + head + planes, 6)
