"""What the figures of the tabs have in common: no tools, thin axes with units, and text that stays text.

The page writes tick texts and tooltips itself (``static/panel_picture.js``): no code of a figure is evaluated
in it, so that a strict Content-Security-Policy holds. Outside the page (``p.plot``) the formatters' own code
does the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from bokeh.models import AdaptiveTicker, Axis, CustomJSTickFormatter, LogTicker
from bokeh.plotting import figure

_SCALED: Final = (
    "const steps = {steps}, size = Math.abs(tick); let k = 0; "
    "while (k + 1 < steps.length && size >= steps[k + 1][0]) k += 1; "
    "return tick === 0 ? '0' : `${{+(tick / steps[k][0]).toFixed(2)}} ${{steps[k][1]}}`"
)
_STEPS: Final = {
    "ns": "[[1, 'ns'], [1e3, 'µs'], [1e6, 'ms'], [1e9, 's']]",
    "bytes": "[[1, 'B'], [1024, 'KiB'], [2 ** 20, 'MiB'], [2 ** 30, 'GiB'], [2 ** 40, 'TiB']]",
    "flops": "[[1, 'FLOP'], [1e3, 'kFLOP'], [1e6, 'MFLOP'], [1e9, 'GFLOP'], [1e12, 'TFLOP']]",
    "flops/s": "[[1, 'FLOP/s'], [1e3, 'kFLOP/s'], [1e6, 'MFLOP/s'], [1e9, 'GFLOP/s'], [1e12, 'TFLOP/s']]",
    "bytes/s": "[[1, 'B/s'], [1024, 'KiB/s'], [2 ** 20, 'MiB/s'], [2 ** 30, 'GiB/s'], [2 ** 40, 'TiB/s']]",
}
_SHARE: Final = "return `${+(100 * tick).toFixed(1)} %`"
_MATHS: Final = ("$$", "\\[", "\\(")
_WORD_JOINER: Final = "\u2060"


def canvas(height: int, x_unit: str = "", y_unit: str = "", **options: Any) -> figure:
    """A figure for a tab: as wide as it may be, without tools, on no background.

    Parameters
    ----------
    height : int
        Pixels.
    x_unit, y_unit : str
        What the axes count: ``ns bytes share flops flops/s bytes/s``, or empty for numbers and names.
    **options
        Of `bokeh.plotting.figure`, as ``x_range`` or ``x_axis_type``.

    Notes
    -----
    A source of its glyphs may have a column ``tip``: text of the tooltip, lines separated by a newline. A
    column ``select``: what a click sets, written by `notebook_prof.views.patches.patch_text`, or empty.
    """
    plot = figure(
        **{
            "height": height,
            "sizing_mode": "stretch_width",
            "tools": "",
            "toolbar_location": None,
            "lod_threshold": None,
            "output_backend": "canvas",
            "outline_line_color": None,
            "background_fill_color": None,
            "border_fill_color": None,
            "min_border_right": 14,
            "min_border_top": 6,
            **options,
        }
    )
    plot.xgrid.visible = False
    plot.ygrid.grid_line_alpha = 0.5
    for axes, unit in ((plot.xaxis, x_unit), (plot.yaxis, y_unit)):
        for axis in axes:
            thin(axis)
            measured(axis, unit)
    return plot


def thin(axis: Axis) -> None:
    """Make an axis as quiet as those of the timeline."""
    axis.axis_line_alpha = 0.4
    axis.minor_tick_line_color = None
    axis.major_tick_in = 0
    axis.major_tick_out = 4
    axis.major_label_text_font_size = "11px"
    axis.axis_label_text_font_size = "11px"
    axis.axis_label_text_font_style = "normal"


def measured(axis: Axis, unit: str) -> None:
    """Write the ticks of an axis in a unit; nothing is changed for an empty one.

    Raises
    ------
    KeyError
        For an unknown unit.
    """
    if not unit:
        return
    code = _SHARE if unit == "share" else _SCALED.format(steps=_STEPS[unit])
    axis.formatter = CustomJSTickFormatter(code=code, tags=["unit", unit])
    if unit.startswith("bytes") and not isinstance(axis.ticker, LogTicker):
        axis.ticker = AdaptiveTicker(
            base=1024,
            mantissas=[1, 2, 4, 8, 16, 32, 64, 128, 256, 512],
            desired_num_ticks=5,
            num_minor_ticks=0,
        )


def plain(texts: Iterable[str]) -> list[str]:
    r"""Names for axes, legends and titles; Bokeh would read ``$$``, ``\[`` and ``\(`` as mathematics.

    Examples
    --------
    >>> plain(["mm", "$$x$$"]) == ["mm", "$\u2060$x$\u2060$"]
    True
    """
    out = []
    for text in texts:
        for mark in _MATHS:
            text = text.replace(mark, mark[0] + _WORD_JOINER + mark[1])
        out.append(text)
    return out


def tips(columns: Mapping[str, Iterable[str]]) -> list[str]:
    """Tooltip texts: the first column is the heading, the others become lines ``value label``.

    Examples
    --------
    >>> tips({"": ["mm", "add"], "self": ["5 ms", "1 ms"]})
    ['mm\\n5 ms self', 'add\\n1 ms self']
    """
    lines = [[f"{value} {label}".strip() for value in values] for label, values in columns.items()]
    return ["\n".join(row) for row in zip(*lines, strict=True)]
