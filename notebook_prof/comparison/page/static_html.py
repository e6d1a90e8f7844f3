"""A comparison as HTML: no script, light and dark, narrow and wide."""

from __future__ import annotations

import html
import math
from collections.abc import Mapping
from difflib import unified_diff
from typing import Any, Final

import numpy as np
import pandas as pd

from ...service.palette import PHASES
from ...trace import Trace
from ...units import format_bytes, format_count, format_ns
from ...views.pictures.images import data_uri, pixels
from ...views.pictures.scene import MUTED, PAPER, Label, Rect, Scene, fit
from ...views.pictures.views import tick_step_ns
from ...views.report.static_html import AGAIN, without_kernel
from ..tables import ComparedTables
from ..verdict import (
    cells_text,
    interval_text,
    label,
    matched_sources,
    sentences,
    signed_ns,
    signed_percent,
    used_times,
)

_ROWS: Final = 12
_MOST_DOTS: Final = 600
_MOST_CELLS: Final = 10_000
_WIDE, _STRIP, _AXIS, _LEFT = 720, 46, 18, 56
_SIDES: Final = (MUTED, "#1976D2")
_LEFT_CELL: Final = 'style="text-align:left"'
_MARKS: Final = {"new": "+", "gone": "−", "changed": "~", "same": " "}
STYLE: Final = """
.nbp-compare{font:13px/1.45 system-ui,sans-serif;color:var(--jp-ui-font-color1,#1f2328);max-width:1100px;
 container-type:inline-size;padding:2px 6px;
 --line:var(--jp-border-color2,#d0d7de);--soft:var(--jp-ui-font-color2,#57606a);--less:#0b6e4f;--more:#a8323e;
 --less-bar:#44aa99;--more-bar:#cc6677}
@media (prefers-color-scheme:dark){body:not([data-jp-theme-light=true]) .nbp-compare{
 color:var(--jp-ui-font-color1,#e6edf3);--line:var(--jp-border-color2,#30363d);
 --soft:var(--jp-ui-font-color2,#9da7b1); --less:#5fd0b5;--more:#ff9aa5}}
body[data-jp-theme-light=false] .nbp-compare{--less:#5fd0b5;--more:#ff9aa5}
.nbp-compare h3{font-size:13px;margin:14px 0 4px}.nbp-compare p{margin:4px 0 8px}
.nbp-compare table{border-collapse:collapse;width:100%;table-layout:fixed}
.nbp-compare td,.nbp-compare th{padding:2px 6px;text-align:right;border:0;border-bottom:1px solid var(--line);
 font-variant-numeric:tabular-nums;white-space:nowrap;overflow:hidden;text-overflow:ellipsis;
 font-weight:400;background:none}
.nbp-compare th{color:var(--soft)}
.nbp-compare td:last-child,.nbp-compare th:last-child{text-align:left}
.nbp-compare .code{font-family:ui-monospace,monospace;white-space:pre}
.nbp-compare code{background:none;padding:0}
.nbp-compare .d{width:92px}.nbp-compare .t{width:72px}
.nbp-compare .c{width:76px;text-align:left;color:var(--soft)}
.nbp-compare .n{width:46px;color:var(--soft)}.nbp-compare .b{width:104px;padding:2px 4px}
.nbp-compare .less{color:var(--less)}.nbp-compare .more{color:var(--more)}
.nbp-compare .soft{color:var(--soft)}
.nbp-compare i.bar{display:block;height:9px;position:relative}.nbp-compare i.pale{opacity:.35}
.nbp-compare tr.new td.code{box-shadow:inset 3px 0 var(--more-bar)}
.nbp-compare tr.gone td.code{box-shadow:inset 3px 0 var(--less-bar);text-decoration:line-through}
.nbp-compare tr.changed td.code{box-shadow:inset 3px 0 var(--soft)}
.nbp-compare img{display:block;height:auto}
body[data-jp-theme-light=false] .nbp-compare img{filter:invert(.93) hue-rotate(180deg)}
@media (prefers-color-scheme:dark){body:not([data-jp-theme-light]) .nbp-compare img{
 filter:invert(.93) hue-rotate(180deg)}}
@container (max-width:560px){.nbp-compare .b,.nbp-compare .c,.nbp-compare .t{display:none}}
"""


def page(c: ComparedTables) -> str:
    return document(c.names, fragment(c))


def document(names: tuple[str, str], body: str) -> str:
    """Return a document with this body, titled by the two names."""
    a, b = map(html.escape, names)
    head = (
        f'<meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{a} and {b}</title>'
    )
    colours = "<style>:root{color-scheme:light dark}body{margin:20px}</style>"
    return f"<!doctype html><html lang=en><head>{head}{colours}</head><body>{body}</body></html>"


def fragment(c: ComparedTables, uid: str = "") -> str:
    """Return the HTML for a notebook without a kernel; a live view next to it hides it by `uid`."""
    first, *others = sentences(c)
    verdict = f"<p><b>{html.escape(first)}</b> {html.escape(' '.join(others))}</p>"
    parts = [f"<style>{STYLE}</style>", verdict, _steps(c), _phases(c)]
    if (c.lines["file"] != "").any():
        parts.append(_source(c))
    for title, table in (("Operators", c.operators), ("Kernels", c.kernels)):
        if len(table):
            parts += [f"<h3>{title}</h3>", _table(c, table)]
    if len(c.memory):
        parts.append(_memory(c))
    if not uid:
        return f'<div class="nbp-compare">{"".join(parts)}</div>'
    parts.append(AGAIN)
    mark = f"nbp-compare nbp-static nbp-static-{html.escape(uid, quote=True)}"
    return f'{without_kernel(uid)}<div class="{mark}">{"".join(parts)}</div>'


def _steps(c: ComparedTables) -> str:
    """Draw every step of both sides as a dot at its time, and the interval of the change."""
    table = c.steps
    largest = max(1.0, float(table.loc[table["used"], "dur_ns"].quantile(0.98)) * 1.15)
    left_out = int((~table["used"]).sum())
    note = f" Hollow: {left_out} that do not count." if left_out else ""
    over = int((table["dur_ns"] > largest).sum())
    note += f" At the right edge: {over} longer ones." if over else ""
    interval = "" if math.isnan(c.interval[0]) else f" Change of a step: {interval_text(c)}."
    caption = f'<p class="soft">One dot per step; lines are medians.{note}{interval}</p>'
    counts = [f"{format_count((table['side'] == name).sum())} of {name}" for name in c.names]
    words = html.escape(f"step times: {' and '.join(counts)}", quote=True)
    image = data_uri(pixels(_dots(c, largest)))
    return f'<h3>Steps</h3><img alt="{words}" src="{image}" style="width:100%;max-width:900px">{caption}'


def _dots(c: ComparedTables, largest: float) -> Scene:
    """Return the picture of all steps: a row of dots per side, uncounted ones hollow."""
    table, scene = c.steps, Scene(_WIDE, 2 * _STRIP + _AXIS)
    room = _WIDE - _LEFT - 10
    for side, (name, colour) in enumerate(zip(c.names, _SIDES, strict=True)):
        rows = table[table["side"] == name]
        rows = rows.iloc[np.unique(np.linspace(0, len(rows) - 1, min(len(rows), _MOST_DOTS)).astype(int))]
        top = side * _STRIP
        scene.parts.append(Label(0, top + 22, fit(name, _LEFT - 8)))
        x = _LEFT + np.minimum(rows["dur_ns"].to_numpy() / largest, 1) * room
        y = top + 6 + (np.arange(len(rows)) % 15) * 2
        for at, over, used in zip(x.tolist(), y.tolist(), rows["used"].tolist(), strict=True):  # at most 600
            scene.parts.append(Rect(at - 2, over, 4, 4, colour, 0.6))
            if not used:
                scene.parts.append(Rect(at - 1, over + 1, 2, 2, PAPER))
        middle = float(used_times(c, side).median())
        at = _LEFT + min(middle / largest, 1) * room
        scene.parts.append(Rect(at - 1, top + 2, 2, 38, colour))
    for tick in np.arange(0, largest, tick_step_ns(largest / 5)).tolist():
        word = format_ns(tick) if tick else "0"
        scene.parts.append(
            Label(_LEFT + tick / largest * room, scene.height - 8, word, MUTED, anchor="middle")
        )
    return scene


def _phases(c: ComparedTables) -> str:
    table = c.phases
    largest = float(table[["a_ns", "b_ns"]].to_numpy().max(initial=1.0)) or 1.0
    rows = []
    for row in table.sort_values("a_ns", ascending=False).to_dict("records"):
        name = str(row["phase"])
        colour = PHASES.get(name, "#888888")
        sides = [
            f'<td class="b"><i class="bar" style="width:{100 * float(row[key]) / largest:.1f}%;'
            f'background:{colour};{"margin-left:auto" if key == "a_ns" else ""}"></i></td>'
            for key in ("a_ns", "b_ns")
        ]
        times = [f'<td class="t">{format_ns(float(row[key]))}</td>' for key in ("a_ns", "b_ns")]
        rows.append(f"<tr>{times[0]}{sides[0]}{sides[1]}{times[1]}{delta_cell(row)}{text_cell(name)}</tr>")
    a, b = map(html.escape, c.names)
    head = (
        f"<tr><th class=t>{a}</th><th class=b></th><th class=b></th><th class=t>{b}</th>"
        f"<th class=d>{c.delta_words}</th><th {_LEFT_CELL}>phase</th></tr>"
    )
    return f"<h3>Phases</h3><table>{head}{''.join(rows)}</table>"


def _source(c: ComparedTables) -> str:
    """Write the source of b, with lines gone from a at their old place, and the difference of each line."""
    times = c.lines
    largest = float(times["delta_ns"].abs().max()) or 1.0
    of = {
        (row["file"], _number(row["a_line"]), _number(row["b_line"])): row for row in times.to_dict("records")
    }
    rows = []
    for line in c.source[c.source["file"] == "cell"].to_dict("records"):
        numbers = _number(line["a_line"]), _number(line["b_line"])
        row = of.get(("cell", *numbers))
        delta = (
            delta_cell(row) + bar_cell(row, largest)
            if row is not None
            else '<td class="d"></td><td class="b"></td>'
        )
        text = code_cell(f"{_MARKS[line['change']]} {line['b_text'] or line['a_text']}")
        cells = "".join(f'<td class="n">{"" if number < 0 else number}</td>' for number in numbers)
        rows.append(f'<tr class="{line["change"]}">{cells}{delta}{text}</tr>')
    if not rows:
        return "<h3>Lines</h3>" + _table(c, times)
    head = "".join(f'<th class="n">{html.escape(name[:6])}</th>' for name in c.names)
    head += f'<th class="d">{c.delta_words}</th><th class="b"></th><th></th>'
    return f"<h3>Source</h3><table><tr>{head}</tr>{''.join(rows)}</table>"


def _table(c: ComparedTables, table: pd.DataFrame) -> str:
    rows = []
    for row in table.head(_ROWS).to_dict("records"):
        times = "".join(f'<td class="t">{format_ns(float(row[key]))}</td>' for key in ("a_ns", "b_ns"))
        change = "" if row["change"] == "same" else str(row["change"]).replace("-", " ")
        text, whole = html.escape(label(row, c.labels)), html.escape(str(row.get("name", "")))
        rows.append(
            f'<tr>{delta_cell(row)}{times}<td class="c">{change}</td>'
            f'<td {_LEFT_CELL} title="{whole}">{text}</td></tr>'
        )
    if len(others := table.iloc[_ROWS:]):
        sums = "".join(
            f'<td class="t">{format_ns(float(others[key].sum()))}</td>' for key in ("a_ns", "b_ns")
        )
        delta = f'<td class="d soft">{signed_ns(float(others["delta_ns"].sum()))}</td>'
        rows.append(
            f'<tr class="soft">{delta}{sums}<td class="c"></td>'
            f"{text_cell(format_count(len(others)) + ' more')}</tr>"
        )
    a, b = map(html.escape, c.names)
    head = (
        f'<tr><th class="d">{c.delta_words}</th><th class="t">{a}</th><th class="t">{b}</th>'
        '<th class="c">change</th><th></th></tr>'
    )
    return f"<table>{head}{''.join(rows)}</table>"


def _memory(c: ComparedTables) -> str:
    rows = []
    for row in c.memory.to_dict("records"):
        device = "host" if int(row["device"]) < 0 else f"device {row['device']}"
        change = (
            f" ({signed_percent(float(row['delta_bytes']) / row['a_bytes'])})" if row["a_bytes"] > 0 else ""
        )
        rows.append(
            f'<tr><td class="t">{format_bytes(float(row["a_bytes"]))}</td>'
            f'<td class="t">{format_bytes(float(row["b_bytes"]))}</td>'
            f"{text_cell(device + ', ' + str(row['source']) + change)}</tr>"
        )
    a, b = map(html.escape, c.names)
    last = f"<th {_LEFT_CELL}>peak above the initial memory</th>"
    head = f'<tr><th class="t">{a}</th><th class="t">{b}</th>{last}</tr>'
    return f"<h3>Memory</h3><table>{head}{''.join(rows)}</table>"


def text_cell(text: str) -> str:
    """Return a cell of text, aligned left even if styles of classes are lost."""
    return f"<td {_LEFT_CELL}>{html.escape(text)}</td>"


def code_cell(text: str) -> str:
    """Return a cell of source that keeps its indentation even if white space is collapsed."""
    bare = text.lstrip(" ")
    indent = "&nbsp;" * (len(text) - len(bare))
    return f'<td {_LEFT_CELL} class="code"><code>{indent}{html.escape(bare)}</code></td>'


def delta_cell(row: Mapping[str, Any]) -> str:
    delta = float(row["delta_ns"])
    if not row["significant"]:
        return f'<td class="d soft" title="within the noise">≈ {signed_ns(delta)}</td>'
    return f'<td class="d {"more" if delta > 0 else "less"}">{signed_ns(delta)}</td>'


def bar_cell(row: Mapping[str, Any], largest: float) -> str:
    """Return a cell with the difference as a bar, to the right if it is slower."""
    share = float(row["delta_ns"]) / largest
    side = "left:50%" if share > 0 else "right:50%"
    colour = "var(--more-bar)" if share > 0 else "var(--less-bar)"
    style = f"position:absolute;{side};width:{50 * abs(share):.1f}%;height:9px;background:{colour}"
    pale = "" if row["significant"] else " pale"
    return f'<td class="b"><i class="bar{pale}"><i style="{style}"></i></i></td>'


def _number(value: object) -> int:
    return -1 if pd.isna(value) else int(value)  # type: ignore[call-overload]


# The page of two sessions: a line for each cell, and the changed lines of edited cells.


def sessions_page(a: Trace, b: Trace, names: tuple[str, str]) -> str:
    parts = [f"<h3>Cells</h3><pre>{html.escape(cells_text(a, b, _MOST_CELLS))}</pre>"]
    edited = [_edited(*pair) for pair in matched_sources(a, b) if pair[1] != pair[2]]
    parts += ["<h3>Edited</h3>", *edited] if edited else []
    return document(names, "".join(parts))


def _edited(name: str, before: str, after: str) -> str:
    lines = list(unified_diff(before.splitlines(), after.splitlines(), n=1, lineterm=""))[2:]
    text = "\n".join(line for line in lines if not line.startswith("@@"))
    return f"<p>{html.escape(name)}</p><pre>{html.escape(text)}</pre>"
