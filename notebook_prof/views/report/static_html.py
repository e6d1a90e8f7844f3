"""Static HTML of a profile: for readers without a kernel, and around the report."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path
from typing import Final

from ... import analysis
from ...analysis import Claim
from ...analysis.source.stack_nodes import working_threads
from ...atomic_files import atomic_text
from ...background import checkpoint
from ...selection import Selection
from ...service.answers import account, table
from ...service.palette import NAMES
from ...service.store import ViewStore
from ...trace import Trace
from ...units import cut, format_bytes, format_count, format_items, format_ns, format_share
from ..pictures.account import account_colours, has_strip
from ..pictures.images import data_uri, pixels
from ..pictures.scene import MUTED
from ..pictures.views import EMPTY, memory_curve, phase_bars, timeline
from ..tabs.lines import whole_of, without_lines

MOST_ROWS: Final = 40
"""Maximum number of rows in the picture of the timeline."""
_WIDTH: Final = 1000
_ROWS: Final = 12
_LINES: Final = 5
AGAIN: Final = (
    "<p>Run the cell again for the interactive views. If only this comes back, the environment of the "
    "Jupyter server, which may not be the kernel's, lacks anywidget: run <code>pip install anywidget</code> "
    "there and reload the page.</p>"
)
"""The note that a reader sees while the live views, which hide the static form, are absent."""
_FRAMES: Final = 8
_HEAP: Final = ("line", "allocated_by", "bytes", "share")
_STACK: Final = ("depth", "name", "total_ns", "share")
_STACK_SLICES: Final = 3_000_000  # above, the heaviest stack takes longer than all else
_BAR: Final = 20
_PARTS: Final = 8
_NAME: Final = 90
_CELL: Final = "padding:2px 10px;text-align:right;white-space:nowrap"


def fragment(
    trace: Trace, selection: Selection, *, verdict: str = "", uid: str = "", store: ViewStore | None = None
) -> str:
    """Write verdict, pictures, account, lines, heaviest stack and operators as HTML without script or SVG."""
    # Untrusted notebooks, GitHub, nbviewer and nbconvert keep a table, an image as data URI, and inline
    # styles; only the rule of `without_kernel` may be lost.
    # A live view next to it hides it by `uid`. Every text from the trace is escaped.
    store = store or ViewStore(trace, fold=True)
    mark = f"nbp-static nbp-static-{escape(uid, quote=True)}" if uid else "nbp-static"
    parts = [f'{without_kernel(uid) if uid else ""}<div class="{mark}" style="font-size:13px">']
    if not store.columns.n:
        return "".join([*parts, _heap(trace) or _nothing(verdict), "</div>"])
    lines = [re.sub("`([^`]+)`", r"<code>\1</code>", escape(line)) for line in verdict.split("\n") if line]
    first, *further = lines or [""]
    if first:
        parts.append(f"<p>{'<br>'.join([f'<b>{first}</b>', *further])}</p>")
    for part in (_picture, _account, _memory_and_phases, _lines, _stack):
        checkpoint()
        parts.append(part(store))
    parts.append(_operators(store, selection))
    if uid:
        parts.append(AGAIN)
        size = format_bytes(len("".join(parts).encode()))
        parts.append(f"<p>This output adds {size} to the notebook file.</p>")
    return "".join([*parts, "</div>"])


def without_kernel(uid: str) -> str:
    """Return a style that hides the output below the static form while it contains only text."""
    # Jupyter writes a text (``Error displaying widget``) if the widget of a saved notebook no longer has a
    # kernel; live views are elements. If styles are removed, the text stays and nothing else changes.
    output = ".jp-OutputArea-child"
    below = f"{output}:has(.nbp-static-{escape(uid, quote=True)}) + {output} > .jp-OutputArea-output"
    return f"<style>{below}:not(:has(*)) {{ display: none; }}</style>"


def html_table(heads: Sequence[str], rows: Iterable[Sequence[str]], left: Sequence[int] = (0,)) -> str:
    """Return a table of cells in HTML, with some columns aligned to the left."""
    styles = [f"{_CELL};text-align:left" if k in left else _CELL for k in range(len(heads))]
    lines = ["".join(f'<th style="{style}">{head}</th>' for style, head in zip(styles, heads, strict=True))]
    for row in rows:
        cells = zip(styles, row, strict=True)
        lines.append("".join(f'<td style="{style}">{cell}</td>' for style, cell in cells))
    return "<table>" + "".join(f"<tr>{line}</tr>" for line in lines) + "</table>"


def _more(left_out: int, noun: str, where: str = "") -> str:
    return f"<p>and {format_items(left_out, f'more {noun}')}{where}</p>" if left_out > 0 else ""


def _heap(trace: Trace, most: int = 15) -> str:
    """Return the heap of a recording without a timeline; empty if there is none."""
    table = analysis.memory_heap(trace).head(most).fillna({"line": "", "allocated_by": ""})
    if not len(table):
        return ""
    rows = [
        (escape(str(line)), escape(str(maker)), format_bytes(size), format_share(share))
        for line, maker, size, share in zip(*(table[name] for name in _HEAP), strict=True)
    ]
    return (
        '<p style="font-size:16px"><b>There is no timeline, only blocks of the heap: the largest by line.'
        f"</b></p>{html_table(('line', 'allocated by', 'bytes', 'share'), rows, left=(0, 1))}"
        "<p><code>p.memory.heap()</code> has all of them.</p>"
    )


def _nothing(verdict: str) -> str:
    """Return the text for a trace without slices: possible reasons, and what to do."""
    lines = [line for line in verdict.split("\n") if line]
    first = next((k for k, line in enumerate(lines) if line.startswith(("!", "✗"))), len(lines))
    advice = "".join(f"<p>{escape(line)}</p>" for line in lines[first:])
    return (
        '<p style="font-size:16px"><b>Nothing was recorded: the trace has no slices.</b></p>'
        f"{advice}<p>Did the code run while it was recorded? Put <code>%%profile</code> on top of the cell "
        "that trains, or <code>with nbp.profile() as p:</code> around the code. With <code>steps=</code> or "
        "a schedule, the loop must reach the first step that is recorded.</p>"
        "<p><code>p.trace.report</code> lists what could not be used.</p>"
    )


def write_report(
    trace: Trace,
    selection: Selection,
    path: str | os.PathLike[str],
    *,
    verdict: str = "",
    claims: Iterable[Claim] = (),
) -> None:
    """Write the report: one HTML file with the four linked views, without kernel or network."""
    from .report import report_page  # it imports Bokeh's models, which the static form should not wait for

    static = fragment(trace, selection, verdict=verdict)
    title = Path(path).stem
    page = report_page(trace, selection, verdict=verdict, static=static, claims=claims, title=title)
    with atomic_text(path) as file:
        file.write(page)


def _picture(store: ViewStore) -> str:
    tracks = store.columns.tracks
    span = format_ns(store.trace.span.dur)
    slices, on = (format_items(n, noun) for n, noun in ((store.columns.n, "slice"), (len(tracks), "track")))
    text = f"{slices} on {on} over {span}"
    shown = sum(store.columns.places[track.first_row] < MOST_ROWS for track in tracks)
    more = f"; drawn are the first {shown}" if shown < len(tracks) else ""
    image = data_uri(pixels(timeline(store, Selection(), _WIDTH, MOST_ROWS), 1))
    return (
        f'<p><img alt="timeline: {escape(text, quote=True)}" src="{image}" '
        'style="width:100%;max-width:1000px;border:1px solid #ccc"><br>'
        f"{escape(text)}{more}.</p>"
    )


def _memory_and_phases(store: ViewStore) -> str:
    """Return the memory curve, below the timeline on the same axis of time, and the bars of the steps."""
    names = {"memory over time": memory_curve, "phases of the steps": phase_bars}
    scenes = {name: draw(store, Selection(), _WIDTH) for name, draw in names.items()}
    style = f"width:100%;max-width:{_WIDTH}px"
    return "".join(
        f'<p><img alt="{name}" src="{data_uri(pixels(scene, 1))}" style="{style}"></p>'
        for name, scene in scenes.items()
        if scene.height > EMPTY
    )


def _account(store: ViewStore) -> str:
    """Return the longest parts of the account in words, with their colours in the picture."""
    if not has_strip(store):
        return ""
    parts = account(store, {}, {}).content["parts"]
    least = sorted((part["dur"] for part in parts), reverse=True)[:_PARTS][-1]
    sentences: list[str] = []
    for part, (colour, _) in zip(parts, account_colours(parts), strict=True):
        if part["dur"] >= least and len(sentences) < _PARTS:
            mark, ink = ("&#9640;", MUTED) if part["kind"] == "outside-window" else ("&#9632;", colour)
            told = part["kind"] != "code" or part["text"] in ("", part["part"])
            text = "" if told else f" ({cut(part['text'], _NAME)})"
            words = f"{part['part']}{text}: {format_ns(part['dur'])}, {format_share(part['share'])}"
            sentences.append(f'<span style="color:{ink}">{mark}</span> {escape(words)}')
    if len(parts) > len(sentences):
        sentences.append(f"and {format_items(len(parts) - len(sentences), 'more part')}")
    return f"<p>{'<br>'.join(sentences)}</p>"


def _lines(store: ViewStore) -> str:
    """Return the longest lines of the user's own source."""
    if without_lines(store.trace):
        return ""
    table = analysis.lines(store.trace)
    if not len(table):
        return ""
    rows = []
    for row in table.head(_LINES).to_dict("records"):
        location = f"{row['file'].replace(chr(92), '/').rpartition('/')[2]}:{row['line']}"
        source = f"<code>{escape(location)}&nbsp; {escape(cut(row['text'].strip(), _NAME))}</code>"
        times = (escape(format_ns(row[name])) for name in ("total_ns", "self_ns"))
        rows.append((source, *times, _bar(row["share"])))
    heads = ("line", "total", "self", f"of {whole_of(store.trace, {})}")
    return html_table(heads, rows, left=(0, 3)) + _more(len(table) - _LINES, "line")


def _stack(store: ViewStore) -> str:
    """Return the heaviest stack of the user's own code, outermost call first; empty without calls."""
    if store.columns.n > _STACK_SLICES:
        return ""
    table = analysis.heaviest_stack(store.trace, fold_libraries=True, track=working_threads(store.trace))
    if len(table) < 2:
        return ""
    rows = [
        (
            f"<code>{'&nbsp;' * 2 * depth}{escape(cut(str(name), _NAME))}</code>",
            escape(format_ns(total)),
            _bar(share),
        )
        for depth, name, total, share in zip(*(table[key].head(_FRAMES) for key in _STACK), strict=True)
    ]
    heads = ("heaviest stack", "total", "of thread time")
    return html_table(heads, rows, left=(0, 2)) + _more(len(table) - _FRAMES, "call", " below")


def _bar(share: float) -> str:
    whole, eighths = divmod(round(8 * _BAR * share), 8)
    bar = "█" * whole + " ▏▎▍▌▋▊▉"[eighths].strip()
    return f'<span style="color:{NAMES[0]}">{bar}</span> {escape(format_share(share))}'


def _operators(store: ViewStore, selection: Selection) -> str:
    answer = table(store, selection.to_state(), {"by": "name", "top": _ROWS})
    data, size = answer.arrays(), len(answer.content["label"])
    times = {"total": "total_ns", "self": "self_ns"}
    if data["device_ns"].any():
        times["device"] = "device_ns"
    rows = []
    for k in range(size):
        code = int(data["name"][k])
        swatch = f'<span style="color:{NAMES[int(store.name_styles.codes[code])]}">&#9632;</span> '
        spent = [format_ns(data[column][k]) if data[column][k] else "" for column in times.values()]
        cells = (format_count(int(data["count"][k])), *spent, format_share(data["share"][k]))
        rows.append((swatch + escape(cut(store.name_styles.labels[code], _NAME)), *map(escape, cells)))
    return html_table(("name", "count", *times, "self share"), rows) + _more(
        answer.content["rows"] - size, "name"
    )
