"""Collapsed stacks: a call path and its weight a line, as flame graphs are made of."""

from __future__ import annotations

import re
from itertools import chain
from typing import ClassVar, Final

import numpy as np

from ..errors import FormatError, OptionError
from ..trace.builder import TraceBuilder
from .base import HEAD_BYTES, Probe, Reader
from .call_tree import Frame, Sampled, add_samples
from .viztracer import frame_of

_LINE: Final = re.compile(rb"[^\s;{][^\x00-\x08\x0e-\x1f]*?[ \t](?:\d+(?:\.\d*)?|\.\d+)\s*")
_SKIPPED: Final = (b"#", b"\x00")
_LONGEST_NS: Final = 2.0**61


class CollapsedReader(Reader):
    """Reads ``outer;inner 12`` lines, as ``stackcollapse-*.pl``, py-spy, async-profiler and we write them.

    Weights are nanoseconds unless ``sample_ns=`` says how long one of them is. Paths are laid one behind
    another; neighbours that agree in the outer frames share their slices. Frames like ``step (train.py:9)``
    have their place in `stacks`.

    Parameters
    ----------
    sample_ns : float
        What a weight of 1 stands for: 10,000,000 for py-spy's samples at 100 Hz.
    """

    name: ClassVar[str] = "collapsed"
    priority: ClassVar[int] = 5
    describes: ClassVar[str] = "collapsed (folded) stacks: 'outer;inner 12' a line, as flame graphs use them"

    def __init__(self, sample_ns: float = 1.0) -> None:
        self._sample_ns = sample_ns

    def configured(self, **options: object) -> Reader:
        """This reader with ``sample_ns``.

        Raises
        ------
        OptionError
            If it is no positive number, or another option is given.
        """
        sample_ns = options.pop("sample_ns", self._sample_ns)
        super().configured(**options)
        if not isinstance(sample_ns, int | float) or not 0 < sample_ns < _LONGEST_NS:
            raise OptionError(f"sample_ns={sample_ns!r}: a number of nanoseconds is needed")
        return CollapsedReader(float(sample_ns))

    def recognises(self, probe: Probe) -> bool:
        """Whether every line of the head is a path with a weight, and some path has two frames."""
        lines = _lines(probe.head)
        if len(probe.head) >= HEAD_BYTES:
            lines = lines[:-1]
        return any(b";" in line for line in lines) and all(map(_LINE.fullmatch, lines))

    def read(self, data: bytes, builder: TraceBuilder) -> None:
        """Put the file's paths into `builder`."""
        lines = _lines(data)
        good = [line for line in lines if _LINE.fullmatch(line)]
        if not good:
            raise FormatError("no line of it is a call path with a weight")
        parts = [line.rsplit(None, 1) for line in good]
        weight = np.array([float(number) for _, number in parts]) * self._sample_ns
        usable = np.cumsum(weight) < _LONGEST_NS
        lost = [line for line in lines if not _LINE.fullmatch(line)][:1] or [b"too large"]
        builder.report.add(
            "broken-row",
            "loss",
            len(lines) - int(usable.sum()),
            example=lost[0][:80].decode(errors="replace"),
            effect="lines that are no path with a weight are left out",
        )
        builder.report.add(
            "no-time-line",
            "info",
            example="totals by call path",
            effect="totals are exact; when and how often a function ran is not known",
            advice="weights are taken as nanoseconds: sample_ns= says otherwise"
            if self._sample_ns == 1
            else "",
        )
        paths = [path.split(b";") for (path, _), ok in zip(parts, usable.tolist(), strict=True) if ok]
        known: dict[bytes, int] = {}
        flat = np.fromiter(
            (known.setdefault(frame, len(known)) for frame in chain.from_iterable(paths)), np.int64
        )
        end = np.rint(np.cumsum(weight[usable])).astype(np.int64)
        ts = np.concatenate([[0], end[:-1]])
        lengths = np.fromiter(map(len, paths), np.int64, len(paths))
        samples = Sampled(ts, end - ts, flat, lengths)
        add_samples(builder, builder.track("main"), samples, [_frame(text) for text in known])


def _lines(data: bytes) -> list[bytes]:
    """Lines that say something; comments and padding do not."""
    return [
        line for line in data.strip(b"\x00").splitlines() if line.strip() and not line.startswith(_SKIPPED)
    ]


def _frame(text: bytes) -> Frame:
    name = text.decode(errors="replace")
    return frame_of(name) or Frame(name, "", 0)
