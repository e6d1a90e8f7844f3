"""Ticks of a time axis, and their texts in Bokeh without our page."""

from __future__ import annotations

from typing import Final

from bokeh.models import AdaptiveTicker, CompositeTicker

_S, _MIN, _H, _DAY = 10**9, 60 * 10**9, 3600 * 10**9, 24 * 3600 * 10**9
_SIXTIETHS: Final = (1, 2, 5, 10, 15, 20, 30)
_HOURS: Final = (1, 2, 3, 6, 12)

TIME_CODE: Final = (
    "const all = ticks.map(Math.abs), most = Math.max(...all), a = Math.abs(tick); "
    "if (most >= 120e9) { if (tick === 0) return '0'; "
    "const s = Math.round(a / 1e9), two = (n) => String(n).padStart(2, '0'), sign = tick < 0 ? '-' : ''; "
    "if (most < 3600e9) return `${sign}${Math.floor(s / 60)}:${two(s % 60)} min`; "
    "const end = s % 60 ? `:${two(s % 60)}` : ''; "
    "return `${sign}${Math.floor(s / 3600)}:${two(Math.floor(s / 60) % 60)}${end} h` } "
    "const [d, u] = a >= 1e9 ? [1e9, 's'] : a >= 1e6 ? [1e6, 'ms'] : a >= 1e3 ? [1e3, 'µs'] : [1, 'ns']; "
    "return `${+(tick / d).toFixed(3)} ${u}`"
)
"""For a ``CustomJSTickFormatter``: like `notebook_prof.units.format_ns`, from two minutes on as a clock."""


def time_ticker() -> CompositeTicker:
    """Put ticks at round parts of a second, a minute, an hour and a day; positions are nanoseconds."""
    parts: tuple[tuple[tuple[int, ...], int, float, float | None], ...] = (
        ((1, 2, 5), 10, 0, 0.5 * _S),
        (_SIXTIETHS, 60, _S, 30 * _S),
        (_SIXTIETHS, 60, _MIN, 30 * _MIN),
        (_HOURS, 24, _H, 12 * _H),
        ((1, 2, 5), 10, _DAY, None),
    )
    few = {"desired_num_ticks": 6, "num_minor_ticks": 0}
    tickers = [
        AdaptiveTicker(mantissas=list(mantissas), base=base, min_interval=least, max_interval=most, **few)
        for mantissas, base, least, most in parts
    ]
    return CompositeTicker(tickers=tickers, **few)
