"""Collapsed stacks: a call path and its weight a line, as flame graphs are made of."""

from __future__ import annotations

from itertools import chain
from typing import ClassVar, Final

import numpy as np

from ...errors import FormatError, OptionError
from ...trace.builder import TraceBuilder
from ..base import HEAD_BYTES, Probe, Reader
from ..call_tree import Sampled, add_samples
from .austin import BINARY, BINARY_IS, check_times, facts, has_header, in_order, times
from .collapsed_tools import AUSTIN, PLAIN, Kind, is_path, joined_lines, kind_of
from .collapsed_tracks import Stacks, add_tracks

_SKIPPED: Final = (b"#", b"\x00")
_LONGEST_NS: Final = 2.0**61


class CollapsedReader(Reader):
    """Reads ``outer;inner 12`` lines, as ``stackcollapse-*.pl``, samplers of Python and we write them.

    Weights are nanoseconds unless ``sample_ns=`` says how long one of them is. Paths are laid one behind
    another; neighbours that agree in the outer frames share their slices. Frames like ``step (train.py:9)``
    have their place in `stacks`.

    Text of Austin and of Tachyon (``profiling.sampling --collapsed``) and py-spy's raw format are told by
    their lines: ``metadata["exporter"]`` is then ``austin``, ``tachyon`` or ``py-spy``, and each thread is a
    track if lines begin with it. Weights of Austin's are microseconds of samples in the order in which they
    were taken; its header is ``metadata["austin"]``. Those of the others are counts of samples.

    Parameters
    ----------
    sample_ns : float, optional
        What a weight of 1 stands for: 10,000,000 for py-spy's samples at 100 Hz.
    """

    name: ClassVar[str] = "collapsed"
    priority: ClassVar[int] = 5
    describes: ClassVar[str] = (
        "collapsed (folded) stacks: 'outer;inner 12' a line, as flame graphs use them; "
        "text of Austin, Tachyon and py-spy"
    )

    def __init__(self, sample_ns: float | None = None) -> None:
        self._sample_ns = sample_ns

    def configured(self, **options: object) -> Reader:
        """Return this reader with ``sample_ns``.

        Raises
        ------
        OptionError
            If it is no positive number, or another option is given.
        """
        if "sample_ns" not in options:
            return super().configured(**options)
        sample_ns = options.pop("sample_ns")
        super().configured(**options)
        if not isinstance(sample_ns, int | float) or not 0 < sample_ns < _LONGEST_NS:
            raise OptionError(f"sample_ns={sample_ns!r}: a number of nanoseconds is needed")
        return CollapsedReader(float(sample_ns))

    def recognises(self, probe: Probe) -> bool:
        """Return whether it has Austin's header, or only paths with weights, one of which has two frames."""
        lines = _lines(probe.head)
        if has_header(probe.head):
            return True
        if len(probe.head) >= HEAD_BYTES:
            lines = lines[:-1]
        return any(b";" in line for line in lines) and all(map(is_path, lines))

    def read(self, data: bytes, builder: TraceBuilder) -> None:
        """Put the file's paths into `builder`."""
        if data.startswith(BINARY):
            raise FormatError(f"it is no text but {BINARY_IS}")
        lines = _lines(data)
        kind = kind_of(lines, has_header(data))
        header = self._header_facts(kind, data, lines, builder)
        good = [line for line in lines if kind.line.fullmatch(line)]
        if not good:
            short = "; Austin writes one at the end of each interval: record for longer"
            raise FormatError(f"no line of it is a call path with a weight{short if kind is AUSTIN else ''}")
        parts = [line.rsplit(None, 1) for line in good]
        numbers = [number for _, number in parts]
        if kind is AUSTIN:
            numbers = times(numbers, builder)
        weight = np.array([float(number) for number in numbers]) * (self._sample_ns or kind.weight_ns)
        usable = np.cumsum(weight) < _LONGEST_NS
        lost = next((line for line in lines if not kind.line.fullmatch(line)), b"too large")
        builder.report.add(
            "broken-row",
            "loss",
            len(lines) - int(usable.sum()),
            example=lost[:80].decode(errors="replace"),
            effect="lines that are no path with a weight are left out",
        )
        paths = [path for (path, _), ok in zip(parts, usable.tolist(), strict=True) if ok]
        ordered = kind is AUSTIN and in_order(header, paths)
        if not ordered:
            self._report_totals(kind, header, builder)
        stacks = _stacks(kind, paths)
        if kind is not PLAIN:
            add_tracks(builder, stacks, weight[usable], kind.labels(stacks.heads), ordered)
            return
        end = np.rint(np.cumsum(weight[usable])).astype(np.int64)
        ts = np.concatenate([[0], end[:-1]])
        add_samples(
            builder,
            builder.track("main"),
            Sampled(ts, end - ts, stacks.frames, stacks.lengths),
            stacks.distinct,
        )

    def _header_facts(
        self, kind: Kind, data: bytes, lines: list[bytes], builder: TraceBuilder
    ) -> dict[str, str]:
        """Return what the file says of itself; into the metadata."""
        if kind.tool:
            builder.metadata["exporter"] = kind.tool
        if kind is not AUSTIN:
            return {}
        builder.metadata["austin"] = header = facts(data)
        check_times(header, lines, self._sample_ns is not None, builder)
        return header

    def _report_totals(self, kind: Kind, header: dict[str, str], builder: TraceBuilder) -> None:
        sampled = "totals are exact" if kind is PLAIN else "totals are estimates from samples"
        builder.report.add(
            "no-time-line",
            "info",
            example="time on the CPU" if header.get("mode") == "cpu" else "totals by call path",
            effect=f"{sampled}; when and how often a function ran is not known",
            advice=kind.advice if self._sample_ns in (None, 1) else "",
        )


def _lines(data: bytes) -> list[bytes]:
    """Return lines that say something; comments and padding do not."""
    return [
        line for line in data.strip(b"\x00").splitlines() if line.strip() and not line.startswith(_SKIPPED)
    ]


def _stacks(kind: Kind, paths: list[bytes]) -> Stacks:
    """Return paths as numbers of frames, without what tells the thread."""
    code_of_head: dict[bytes, int] = {}
    thread = np.zeros(len(paths), np.int64)
    if kind is PLAIN:
        split = [path.split(b";") for path in paths]
    else:
        match = kind.head.match
        ends = [0 if (match_of_head := match(path)) is None else match_of_head.end() for path in paths]
        starts = [path[:end] for path, end in zip(paths, ends, strict=True)]
        thread = np.fromiter(
            (code_of_head.setdefault(start, len(code_of_head)) for start in starts), np.int64
        )
        rests = [path[end:] for path, end in zip(paths, ends, strict=True)]
        if kind is AUSTIN:
            rests = [
                joined_lines(frames_text) if b";L" in frames_text else frames_text for frames_text in rests
            ]
        split = [frames_text.split(b";") if frames_text else [] for frames_text in rests]
    code_of_frame: dict[bytes, int] = {}
    frames = np.fromiter(
        (code_of_frame.setdefault(frame, len(code_of_frame)) for frame in chain.from_iterable(split)),
        np.int64,
    )
    lengths = np.fromiter(map(len, split), np.int64, len(split))
    names = [kind.frame(text.decode(errors="replace")) for text in code_of_frame]
    return Stacks(frames, lengths, names, thread, list(code_of_head))
