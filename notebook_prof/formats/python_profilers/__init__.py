"""Files of Python profilers: sampled stacks, call trees, statistics by function or line."""

from __future__ import annotations

import re
from contextlib import suppress
from typing import Final

from ...errors import OptionError
from ...readers.base import MarkedJsonReader, Probe, Reader
from ...readers.codec.protobuf import WireError, fields
from ...trace.builder import TraceBuilder

_COMMENTS: Final = 13
_LAST_FIELD: Final = 15
_NUMBERS: Final = frozenset({7, 8, 9, 10, 12, 13, 14, 15})
"""Fields of a profile that are numbers. All others are preceded by their length."""
_TYPE_OF_SAMPLE: Final = 1
_PYINSTRUMENT: Final = re.compile(rb'"(?:root_frame|frame_records)"\s*:')
_ALSO_PYINSTRUMENT: Final = re.compile(rb'"(?:sample_count|start_time|target_description)"\s*:')
_SCALENE: Final = re.compile(
    rb'"(?:n_cpu_percent_python|combined_stacks|elapsed_time_sec|entrypoint_dir|max_footprint_mb)"\s*:'
)
_ALSO_SCALENE: Final = re.compile(
    rb'"(?:alloc_samples|args|files|growth_rate|memory|stacks|gpu|filename)"\s*:'
)
_SPEEDSCOPE: Final = re.compile(rb'speedscope\.app/file-format-schema|"shared"\s*:\s*\{\s*"frames"')
_VIZTRACER: Final = re.compile(rb'"viztracer_metadata"\s*:|"cat"\s*:\s*"(?:FEE|fee)"')
# a marshalled dict (perhaps referred to) whose first key is a tuple of three, or that is empty
_PSTATS: Final = re.compile(rb"[\x7b\xfb](?:[\x29\xa9]\x03|[\x28\xa8]\x03\x00\x00\x00|0\Z)")
_TACHYON: Final = re.compile(rb'\s*\{"type":\s*"meta",\s*"v":\s*\d[^\n]{0,400}"sample_interval_usec":')
_LONGEST_NS: Final = 2.0**61


class CollapsedReader(Reader):
    """Reads ``outer;inner 12`` lines, as written by ``stackcollapse-*.pl``, Python samplers and us."""

    # Weights are nanoseconds unless ``sample_ns=`` says how long a weight of 1 is, such as 10,000,000 for
    # py-spy at 100 Hz. Paths are placed one after another; neighbours with the same outer frames share those
    # slices. The file and line of frames like ``step (train.py:9)`` are in `stacks`. The text of Austin and
    # Tachyon (``profiling.sampling --collapsed``) and py-spy's raw format are recognised by their lines:
    # ``metadata["exporter"]`` is then ``austin``, ``tachyon`` or ``py-spy``, and each thread is a track if
    # the lines begin with it. Austin's weights are microseconds, for samples in the order in which they were
    # taken; its header is in ``metadata["austin"]``. The weights of the others are counts of samples.
    name = "collapsed"
    priority = 5
    describes = (
        "collapsed (folded) stacks: 'outer;inner 12' a line, as flame graphs use them; "
        "text of Austin, Tachyon and py-spy"
    )

    def __init__(self, sample_ns: float | None = None) -> None:
        self._sample_ns = sample_ns

    def configured(self, **options: object) -> Reader:
        """Return this reader with ``sample_ns``, which must be a positive number."""
        if "sample_ns" not in options:
            return super().configured(**options)
        sample_ns = options.pop("sample_ns")
        super().configured(**options)
        if not isinstance(sample_ns, int | float) or not 0 < sample_ns < _LONGEST_NS:
            raise OptionError(f"sample_ns={sample_ns!r}: a number of nanoseconds is needed")
        return CollapsedReader(float(sample_ns))

    def recognises(self, probe: Probe) -> bool:
        """Return whether it has Austin's header, or only paths with weights, at least one with two frames."""
        from .collapsed import is_collapsed

        return is_collapsed(probe.head)

    def read(self, data: bytes, builder: TraceBuilder) -> None:
        from .collapsed import read_collapsed

        read_collapsed(data, self._sample_ns, builder)


class PprofReader(Reader):
    """Reads pprof profiles, as written by Go, Julia's PProf, Parca, relatives of py-spy and others."""

    # Samples have no time stamps. They are placed one after another, each as long as its time, or its count
    # times the period. Samples whose labels name a thread are on that thread's track; the table
    # ``sample_labels`` has the time by other labels. The delay in a contention profile counts as waiting.
    # Profiles that count bytes, allocations or goroutines contain no times and are refused.
    name = "pprof"
    priority = 615
    describes = "pprof: sampled stacks of Go, Julia, Parca (profile.proto, packed by gzip or not)"
    reads = ".pprof:read_pprof"

    def recognises(self, probe: Probe) -> bool:
        """Return whether the head is that of a profile: sample types, and no field that profiles lack."""
        head, types, others = probe.head, 0, 0
        with suppress(WireError):  # the head may end inside a field
            for number, value in fields(head, (0, len(head))):
                is_number = isinstance(value, int)
                packed = number == _COMMENTS and not is_number
                if not 0 < number <= _LAST_FIELD or (is_number != (number in _NUMBERS) and not packed):
                    return False
                if number == _TYPE_OF_SAMPLE and isinstance(value, tuple):
                    if any(n not in (1, 2) or isinstance(part, tuple) for n, part in fields(head, value)):
                        return False
                    types += 1
                others += number != _TYPE_OF_SAMPLE and not is_number
        return types > 0 and others > 0


class PyinstrumentReader(MarkedJsonReader):
    """Reads ``pyinstrument -r json`` and saved sessions (``.pyisession``)."""

    # The JSON is a tree of durations without a timeline: all calls at one place are one slice, and slices
    # are placed one after another in the order of the tree. A session has the samples in the order in which
    # they were taken.
    name = "pyinstrument"
    priority = 405
    describes = "pyinstrument: JSON tree (-r json) or saved session (.pyisession)"
    reads = ".pyinstrument:read_pyinstrument"
    marks = (_PYINSTRUMENT, _ALSO_PYINSTRUMENT)


class ScaleneReader(MarkedJsonReader):
    """Reads ``scalene --json``."""

    # Scalene gives shares but no timeline: a slice is a call path with its share of the elapsed time or,
    # without call paths, a line with its share. Slices are placed one after another. All of Scalene's columns
    # are in ``metadata["tables"]["lines"]`` and ``["functions"]``; its memory footprint over time is a
    # counter.
    name = "scalene"
    priority = 400
    describes = "Scalene JSON: Python, native and system time and memory by line"
    reads = ".scalene:read_scalene"
    marks = (_SCALENE, _ALSO_SCALENE)


class SpeedscopeReader(MarkedJsonReader):
    """Reads ``*.speedscope.json``: each profile is a track, evented or sampled."""

    # Consecutive samples with the same outer frames share those slices. Units other than times (``bytes``,
    # ``none``) are drawn as nanoseconds, and the report says so.
    name = "speedscope"
    priority = 410
    describes = "speedscope JSON, evented or sampled, as many Python profilers export it"
    reads = ".collapsed:read_speedscope"
    marks = (_SPEEDSCOPE,)


class VizTracerReader(Reader):
    """Reads VizTracer's ``result.json``: calls with file and line, counters, instants."""

    # Slices are named after their function, file and line; the full path of the file is in `stacks`. The
    # source text that VizTracer includes is in ``metadata["source_files"]``, by path.
    name = "viztracer"
    priority = 520
    describes = "VizTracer JSON: every call of Python functions"
    reads = ".viztracer:read_viztracer"

    def recognises(self, probe: Probe) -> bool:
        return probe.head.lstrip()[:1] in (b"{", b"[") and _VIZTRACER.search(probe.head) is not None


class PstatsReader(Reader):
    """Reads files of cProfile and pstats, without using Python's own unmarshalling."""

    # They contain sums by function, without a timeline: a slice is a function with its own time, and slices
    # are placed one after another, longest first. Calls, own and cumulative times are in
    # ``metadata["tables"]["functions"]`` (``name file line calls primitive_calls self_ns total_ns``), and by
    # caller in ``["callers"]``.
    name = "pstats"
    priority = 300
    describes = "cProfile / pstats statistics (python -m cProfile -o FILE)"
    reads = ".sums:read_pstats"

    def recognises(self, probe: Probe) -> bool:
        return _PSTATS.match(probe.head) is not None


class TachyonJsonlReader(Reader):
    """Reads ``profiling.sampling --jsonl``: samples by position in the source, for all threads together."""

    # The file contains neither stacks nor times: a slice is a position with its own samples, and slices are
    # placed one after another, those with the most samples first. ``metadata["tables"]["frames"]`` has all
    # positions, with the samples in which they were on the stack: ``name file line column self_samples
    # cumulative_samples self_ns cumulative_ns``.
    name = "tachyon_jsonl"
    priority = 426
    describes = "sums by line of Tachyon, Python 3.15's profiling.sampling --jsonl"
    reads = ".sums:read_tachyon_sums"

    def recognises(self, probe: Probe) -> bool:
        return _TACHYON.match(probe.head) is not None
