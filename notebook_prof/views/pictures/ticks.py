"""Where the ticks of a time axis stand."""

from __future__ import annotations

from typing import Final

_S, _MIN, _H, _DAY = 10**9, 60 * 10**9, 3600 * 10**9, 24 * 3600 * 10**9
_SIXTIETHS: Final = (1, 2, 5, 10, 15, 20, 30)
_HOURS: Final = (1, 2, 3, 6, 12)


def tick_step_ns(least_ns: float) -> float:
    """The shortest round distance between ticks that is not below `least_ns`.

    Examples
    --------
    >>> tick_step_ns(1_300), tick_step_ns(70e9) / 60e9, tick_step_ns(4 * 3600e9) / 3600e9
    (2000.0, 2.0, 6.0)
    """
    for unit, parts in ((_S, _SIXTIETHS), (_MIN, _SIXTIETHS), (_H, _HOURS)):
        for count in parts if least_ns > 0.5 * _S else ():
            if count * unit >= least_ns:
                return float(count * unit)
    unit = _DAY if least_ns > 0.5 * _S else 1
    scale = 1.0
    while 5 * scale * unit < least_ns:
        scale *= 10
    while 0.5 * scale * unit >= least_ns:
        scale /= 10
    return float(unit * min(count * scale for count in (1, 2, 5) if count * scale * unit >= least_ns))
