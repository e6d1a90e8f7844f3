"""Formats and parses numbers: nanoseconds, bytes and shares.

Tables contain plain numbers (int64 nanoseconds, int64 bytes, shares between 0 and 1). Only views and reprs
format.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Final

from .errors import OptionError

CLOCK_FROM_NS: Final = 120e9
"""From this duration on, `format_ns` writes minutes, and positions on time axes are written by
`format_clock`."""
_HOURS_FROM_NS: Final = 3599.5e9  # rounds to an hour
_TIME_NS = {"ns": 1, "us": 10**3, "µs": 10**3, "μs": 10**3, "ms": 10**6, "s": 10**9, "min": 60 * 10**9}
_QUANTITY = re.compile(r"\s*([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)\s*([^\d\s]*)\s*")
_BYTE_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


def format_ns(ns: float, digits: int = 3) -> str:
    """Format a duration: ``0 ns``, ``1.23 µs``, ``7.89 s``, ``2 min 5 s``, ``3 h 20 min``; ``–`` for NaN."""
    if not math.isfinite(ns):
        return "–"
    sign, size = ("-" if ns < 0 else ""), abs(ns)
    if size >= CLOCK_FROM_NS:
        hours = size >= _HOURS_FROM_NS
        whole, rest = divmod(round(size / (60e9 if hours else 1e9)), 60)
        unit, below = ("h", "min") if hours else ("min", "s")
        return f"{sign}{whole} {unit} {rest} {below}" if rest else f"{sign}{whole} {unit}"
    for unit, scale in (("s", 1e9), ("ms", 1e6), ("µs", 1e3)):
        # 999 999.9 ns must read 1 ms, not 1000 µs
        if float(f"{size / scale:.{digits}g}") >= 1:
            return f"{sign}{_significant(size / scale, digits)} {unit}"
    return f"{sign}{_significant(size, digits)} ns"


def format_clock(ns: float, resolution_ns: float = 1e9, of_ns: float | None = None) -> str:
    """Format a position on a long time axis: ``16:40 min``, ``1:30 h``."""
    # `resolution_ns` is the distance between neighbouring positions; below a second it adds decimals.
    # `of_ns`, the largest position on the axis, decides between ``min`` and ``h``.
    if not math.isfinite(ns):
        return "–"
    hours = abs(ns if of_ns is None else of_ns) >= 3600e9
    decimals = min(9, max(0, math.ceil(-math.log10(max(resolution_ns, 1e-3) / 1e9) - 1e-9)))
    whole = 60 if hours and resolution_ns >= 60e9 else 1
    scale = 10**decimals
    total = math.floor(abs(ns) / 1e9 * scale / whole + 0.5) * whole / scale
    minutes, seconds = divmod(total, 60)
    sign = "-" if ns < 0 and total else ""
    after = f"{seconds:0{3 + decimals if decimals else 2}.{decimals}f}"
    if not hours:
        return f"{sign}{int(minutes)}:{after} min"
    clock = f"{sign}{int(minutes) // 60}:{int(minutes) % 60:02d}"
    return f"{clock} h" if whole == 60 else f"{clock}:{after} h"


def format_bytes(count: float, digits: int = 3) -> str:
    """Format a number of bytes with binary units: ``3 MiB``."""
    if not math.isfinite(count):
        return "–"
    sign, size = ("-" if count < 0 else ""), abs(float(count))
    power = 0
    while round(size) >= 1024 and power < len(_BYTE_UNITS) - 1:
        size, power = size / 1024, power + 1
    return f"{sign}{_significant(size, digits)} {_BYTE_UNITS[power]}"


def byte_ticks(counts: Sequence[float]) -> list[str]:
    """Format the ticks of an axis in bytes, all in the unit of the largest tick.

    >>> byte_ticks([0, 2**29, 2**30])
    ['0', '0.5 GiB', '1 GiB']
    """
    largest = max((abs(count) for count in counts), default=0)
    power = min(int(math.log2(max(largest, 1)) / 10), len(_BYTE_UNITS) - 1)
    sizes = (count / 1024**power for count in counts)
    return [f"{format_number(size, 3)} {_BYTE_UNITS[power]}" if size else "0" for size in sizes]


def format_share(share: float, digits: int = 1) -> str:
    """Format a share (0–1) as a percentage: ``82.3 %``."""
    if not math.isfinite(share):
        return "–"
    percent = 100 * share
    if 0 < percent < 0.5 * 10**-digits:
        return f"<{10**-digits:.{digits}f} %"
    return f"{percent:.{digits}f} %"


def format_count(count: int) -> str:
    """Format a count in groups of three digits: ``1,234,567``."""
    return f"{count:,}"


def format_number(value: float, digits: int = 3) -> str:
    """Format a number without a unit: three digits, but never fewer than its integer part has.

    >>> format_number(0.151515), format_number(1234567.0), format_number(2.0)
    ('0.152', '1234567', '2')
    """
    if not math.isfinite(value):
        return "–"
    return f"{'-' if value < 0 else ''}{_significant(abs(value), digits)}"


def format_items(count: int, noun: str) -> str:
    """Format a number of things: ``1 call``, ``1,408 calls``."""
    return f"{format_count(count)} {noun}{'s' * (count != 1)}"


def cut(text: str, most: int) -> str:
    """Shorten a text that is too long, with ``…`` at its end."""
    return text if len(text) <= most else text[: most - 1] + "…"


def parse_share(text: str | float, what: str = "until") -> float:
    """Parse a share between 0 and 1, such as ``"2%"`` or 0.02. Raises OptionError for anything else."""
    words = str(text).strip()
    try:
        share = float(words.removesuffix("%")) / (100 if words.endswith("%") else 1)
    except ValueError:
        share = math.nan
    if not 0 < share < 1:
        raise OptionError(f"{what} {text!r} is not a share between 0 and 1: write it as 2%")
    return share


def parse_ns(text: str | float) -> int:
    """Parse a duration such as ``"5us"``, or a number of nanoseconds. OptionError for anything else."""
    if isinstance(text, int | float):
        if not math.isfinite(text):
            raise OptionError(f"{text!r} is not a duration: a finite number of nanoseconds is needed")
        return round(text)
    match = _QUANTITY.fullmatch(text)
    unit = (match[2] or "ns") if match else ""
    if match is None or unit not in _TIME_NS:
        raise OptionError(
            f"{text!r} is not a duration: write a number and one of ns, us, ms, s, min, as in 5us"
        )
    return round(float(match[1]) * _TIME_NS[unit])


def _significant(value: float, digits: int) -> str:
    if value == 0:
        return "0"
    decimals = max(0, digits - 1 - math.floor(math.log10(abs(value))))
    text = f"{value:.{decimals}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
