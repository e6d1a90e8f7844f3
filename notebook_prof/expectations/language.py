"""Parses an expectation: a quantity, an operator and a limit, as in ``step p50 < 120ms``."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Final

from ..errors import OptionError, nearest
from ..units import format_bytes, format_ns, format_number, format_share, parse_ns

STATISTICS: Final = ("p50", "p90", "p95", "p99", "mean", "min", "max")
UNITS: Final = {
    "step": ("ns",),
    "steps": ("count",),
    "phase": ("share", "ns"),
    "device": ("share",),
    "peak": ("bytes",),
    "sync": ("count",),
    **dict.fromkeys(("operator", "kernel", "line"), ("share", "count")),
    **dict.fromkeys(("notebook", "cell"), ("ns",)),
    **dict.fromkeys(("slower", "faster"), ("share",)),
}
"""Quantities, and the units of their limits."""
_WRITE: Final = {
    "ns": "a time such as 120ms",
    "share": "a share such as 5%",
    "bytes": "a size such as 8GiB",
    "count": "a number",
}
_NAMED: Final = frozenset({"phase", "operator", "kernel", "line", "cell"})
_EXPECTATION: Final = re.compile(r"\s*(\w+)\s*(.*?)\s*(<=|>=|==|!=|=|<|>)\s*([^<>=!]+?)\s*", re.DOTALL)
_NUMBER: Final = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?)\s*(\S*)", re.IGNORECASE)
_BYTES: Final = {
    "B": 1,
    **{f"{letter}iB": 1024**power for power, letter in enumerate("KMGT", 1)},
    **{f"{letter}B": 1000**power for power, letter in enumerate(("k", "M", "G", "T"), 1)},
}


@dataclass(frozen=True, slots=True)
class Expectation:
    """One expectation."""

    text: str  # as written
    quantity: str  # one of `UNITS`
    # statistic of ``step``, name of ``operator``, ``kernel`` and ``phase``, number of ``line``, ``busy`` or
    # ``idle`` of ``device``, ``host`` or ``device`` of ``peak``; empty if not given
    of: str
    operator: str  # ``< <= > >= == !=``
    limit: float
    unit: str  # of the limit: ``ns share bytes count``

    @classmethod
    def parse(cls, text: str) -> Expectation:
        """Parse one expectation; OptionError says what can be written."""
        match = _EXPECTATION.fullmatch(text)
        if match is None:
            raise OptionError(f"{text!r} is not an expectation such as 'step p50 < 120ms' or 'sync == 0'")
        quantity, of, operator, value = match.groups()
        if quantity not in UNITS:
            raise OptionError(f"{text!r}: there is no quantity {quantity!r}; {nearest(quantity, UNITS)}")
        limit, unit = _limit(text, quantity, value)
        operator = "==" if operator == "=" else operator
        if operator in ("==", "!=") and unit != "count":
            raise OptionError(f"{text!r}: only numbers of calls and steps can be compared with {operator}")
        return cls(text.strip(), quantity, _part(text, quantity, of), operator, limit, unit)

    def holds(self, value: float) -> bool:
        return {
            "<": value < self.limit,
            "<=": value <= self.limit,
            ">": value > self.limit,
            ">=": value >= self.limit,
            "==": value == self.limit,
            "!=": value != self.limit,
        }[self.operator]


def value_text(value: float, unit: str) -> str:
    """Format a value in a unit of `UNITS`."""
    if not math.isfinite(value):
        return "unknown" if math.isnan(value) else "∞" if value > 0 else "−∞"
    formats = {"ns": format_ns, "share": format_share, "bytes": format_bytes, "count": format_number}
    return formats[unit](value)


def _limit(text: str, quantity: str, value: str) -> tuple[float, str]:
    match, units = _NUMBER.fullmatch(value), UNITS[quantity]
    if match is not None:
        number, written = float(match[1]), match[2]
        if written == "%" and "share" in units:
            return number / 100, "share"
        if written == "" and "count" in units:
            return number, "count"
        if written in _BYTES and "bytes" in units:
            return number * _BYTES[written], "bytes"
        if written not in ("", "%", *_BYTES) and "ns" in units:
            return float(parse_ns(value)), "ns"
    choices = " or ".join(_WRITE[unit] for unit in units)
    raise OptionError(f"{text!r}: {value!r} is not a limit of {quantity!r}; write {choices}")


def _part(text: str, quantity: str, of: str) -> str:
    words = {"step": STATISTICS, "device": ("busy", "idle"), "peak": ("host", "device")}.get(quantity)
    if words is not None:
        if of and of not in words:
            raise OptionError(f"{text!r}: {quantity} has no {of!r}; {nearest(of, words)}")
        if quantity == "device" and not of:
            raise OptionError(f"{text!r}: write 'device idle' or 'device busy'")
        return of or {"step": "p50"}.get(quantity, "")
    if quantity in _NAMED:
        if not of:
            raise OptionError(f"{text!r}: which {quantity}? Write '{quantity} NAME' before the limit")
        if quantity in ("line", "cell") and not of.isdigit():
            of_what = "a line of the cell" if quantity == "line" else "a cell, its execution count"
            raise OptionError(f"{text!r}: {of!r} is not the number of {of_what}")
    elif of:
        raise OptionError(f"{text!r}: {quantity} takes nothing before the limit, not {of!r}")
    return of
