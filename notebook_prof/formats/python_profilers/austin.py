"""What Austin writes beside its stacks: a header, and numbers that are times, memory or both."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from ...errors import FormatError
from ...trace.builder import TraceBuilder
from .collapsed_tools import is_negative

_WITHIN: Final = 4096
_HEADER: Final = re.compile(rb"^# austin: \S", re.MULTILINE)
_FACT: Final = re.compile(
    rb"^# (austin|interval|mode|memory|multiprocess|gc|duration): *([^\r\n]{1,80})", re.M
)
_TIMED: Final = ("wall", "cpu", "full")
_BYTES: Final = (
    "its numbers are bytes, and none is a time. Record again without -m (--memory) for times, or draw the "
    "bytes with flamegraph.pl or speedscope.app"
)
BINARY: Final = b"MOJ"
"""How Austin's binary files begin."""
BINARY_IS: Final = "Austin's binary format MOJO: open it without format=, or with format='mojo'"


def has_header(data: bytes) -> bool:
    """Return whether a file begins with Austin's header.

    >>> has_header(b"# austin: 3.7.0\\n# interval: 100\\n"), has_header(b"# austin\\na;b 3\\n")
    (True, False)
    """
    return data.lstrip(b"\x00\r\n \t").startswith(b"# ") and _HEADER.search(data[:_WITHIN]) is not None


def facts(data: bytes) -> dict[str, str]:
    """Return what header and footer say: ``version``, ``mode``, ``interval`` and ``duration`` in µs, ….

    >>> facts(b"# austin: 3.7.0\\n# mode: wall\\n\\nP1;T0:1;a.py:f:3 9\\n\\n# duration: 9\\n")
    {'version': '3.7.0', 'mode': 'wall', 'duration': '9'}
    """
    pairs = [(key.decode(), value.decode(errors="replace").strip()) for key, value in _FACT.findall(data)]
    named = {"version" if key == "austin" else key: value for key, value in pairs}
    check_mode(named)
    return named


def check_mode(header: Mapping[str, str]) -> None:
    """Raise FormatError if the numbers of the file are bytes."""
    if header.get("mode") == "memory":
        raise FormatError(f"Austin recorded memory ('mode: memory'): {_BYTES}")


def check_times(
    header: Mapping[str, str], lines: Sequence[bytes], unit_given: bool, builder: TraceBuilder
) -> None:
    """Report that neither the file nor the caller says that the numbers are microseconds."""
    mode = header.get("mode", "")
    if mode in _TIMED:
        return
    # only changes of memory can be negative
    if (lost := next(filter(is_negative, lines), None)) is not None:
        raise FormatError(
            f"Austin recorded memory, since {lost[-40:].decode(errors='replace')!r} is a loss: {_BYTES}"
        )
    if unit_given:
        return
    builder.report.add(
        "unit-assumed",
        "info",
        example=f"'# mode: {mode}'" if mode else "no line '# mode:'",
        effect="weights are taken as microseconds, as Austin writes times",
        advice="if they are bytes (-m), do not use the times; sample_ns= says what a weight of 1 is",
    )


def times(numbers: Sequence[bytes], builder: TraceBuilder) -> list[bytes]:
    """Return the times of ``time,idle,memory``, and of samples that have only a time."""
    parts = [number.split(b",") for number in numbers]
    whole = [part for part in parts if len(part) == 3]
    if whole:
        idle = sum(part[1].strip(b"0") != b"" for part in whole)
        change = np.array([float(part[2]) for part in whole])
        grown, shrunk = np.maximum(change, 0).sum(), np.minimum(change, 0).sum()
        builder.report.add(
            "metrics-not-used",
            "loss",
            len(whole),
            example=f"{idle:,} of {len(whole):,} samples idle, memory +{grown:,.0f} and {shrunk:,.0f} bytes",
            effect="the time of a sample counts, idle or not; idle states and memory are left out",
            advice="record with -s instead of -f for time on the CPU alone",
        )
    return [part[0] for part in parts]


def in_order(header: Mapping[str, str], paths: Sequence[bytes]) -> bool:
    """Return whether samples follow one another without gaps.

    >>> in_order({"mode": "wall"}, [b"P1;T1;f", b"P1;T1;g", b"P1;T1;f"]), in_order({}, [b"P1;T1;f"])
    (True, False)
    """
    # They do not if idle threads are left out, or if every path is there once, as austin-compress leaves
    # them.
    return header.get("mode") != "cpu" and len(set(paths)) < len(paths)
