"""Numbers as MegEngine's ``profile_analyze`` writes them."""

from __future__ import annotations

import json
import math
from typing import Any, Final

_THOUSANDS: Final = ("", "K", "M", "G", "T", "P")
_BYTES: Final = ("byte", "KiB", "MiB", "GiB", "TiB", "PiB")
_WIDTH: Final = 30


def flop_text(value: float, unit: str) -> str:
    """Format as ``12.46`` and ``MFLO`` on two lines; ``N/A`` if unknown.

    >>> flop_text(12_460_032, "FLO"), flop_text(float("nan"), "FLOPS")
    ('12.46\\nMFLO', 'N/A\\nFLOPS')
    """
    if not math.isfinite(value):
        return f"{'N/A' if math.isnan(value) else 'inf'}\n{unit}"
    number, at = _scaled(value, 1000, len(_THOUSANDS))
    return f"{number:.2f}\n{_THOUSANDS[at]}{unit}"


def byte_text(value: float, suffix: str = "") -> str:
    """Format as ``299.50`` and ``KiB`` on two lines; ``N/A`` if unknown.

    >>> byte_text(306_688), byte_text(0, "/s")
    ('299.50\\nKiB', '0.00\\nbyte/s')
    """
    if not math.isfinite(value):
        return f"{'N/A' if math.isnan(value) else 'inf'}\nbyte{suffix}"
    number, at = _scaled(value, 1024, len(_BYTES))
    return f"{number:.2f}\n{_BYTES[at]}{suffix}"


def seconds_text(value: float) -> str:
    """Format seconds with three significant digits."""
    return f"{value:.3g}" if value else "0.0"


def wrapped(text: str) -> str:
    """Wrap a long name in pieces of 30 characters, as in MegEngine's column of operators.

    >>> wrapped("backward.ConvolutionBackwardFilterV2")
    'backward.ConvolutionBackwardFi\\n-  lterV2'
    """
    pieces = [text[i : i + _WIDTH] for i in range(0, len(text), _WIDTH)] or [""]
    return "\n-  ".join(pieces)


def shape_lines(shapes: Any, layouts: Any = None) -> list[str]:
    """Format shapes as ``{8,3}``, followed by unusual strides.

    >>> shape_lines("[[8, 3], [0]]", "[null, [1]]")
    ['{8,3}', '{0}\\n-[1]']
    """
    if not isinstance(shapes, str):
        return []
    strides = json.loads(layouts) if isinstance(layouts, str) else []
    lines = []
    for i, shape in enumerate(json.loads(shapes)):
        text = "{" + ",".join(str(size) for size in shape) + "}"
        if i < len(strides) and strides[i]:
            text += "\n-" + json.dumps(strides[i], separators=(",", ":"))
        lines.append(text)
    return lines


def bar(value: float, largest: float, width: int = 15) -> str:
    """Return a bar of ``#``."""
    return "#" * int(value / largest * width) if math.isfinite(value) and largest > 0 else ""


def _scaled(value: float, base: int, count: int) -> tuple[float, int]:
    at = 0
    while abs(value) >= base and at < count - 1:
        value, at = value / base, at + 1
    return value, at
