"""Static HTML of a profile: for readers without a kernel, and around the report."""

from __future__ import annotations

import os
from html import escape
from typing import Final

import numpy as np

from ..selection import Selection
from ..trace import Trace
from ..units import format_bytes, format_count, format_ns, format_share
from .answers import table
from .palette import NAMES
from .picture import MOST_ROWS, data_uri
from .store import ViewStore
from .thumbnail import thumbnail

_ROWS: Final = 12
_NAME: Final = 90
_CELL: Final = "padding:2px 10px;text-align:right;white-space:nowrap"


def fragment(
    trace: Trace, selection: Selection, *, verdict: str = "", uid: str = "", store: ViewStore | None = None
) -> str:
    """A picture, the verdict and the longest operators, as HTML without script or SVG.

    What untrusted notebooks, GitHub, nbviewer and nbconvert keep: a table, an image as data URI, inline
    styles; nothing is lost with the one rule of `without_kernel`. Every text of the trace is escaped.

    Parameters
    ----------
    trace : Trace
    selection : Selection
        The table is of what is selected.
    verdict : str
        Lines of text to put on top.
    uid : str
        Marks the fragment, so that a live view beside it can hide it.
    store : ViewStore, optional
        Indexes of the trace, if there are some.
    """
    store = store or ViewStore(trace)
    mark = f"nbp-static nbp-static-{escape(uid, quote=True)}" if uid else "nbp-static"
    parts = [f'{without_kernel(uid) if uid else ""}<div class="{mark}" style="font-size:13px">']
    if not store.columns.n:
        return "".join([*parts, _nothing(verdict), "</div>"])
    first, *rest = [line for line in verdict.split("\n") if line] or [""]
    if first:
        parts.append(f"<p><b>{escape(first)}</b>{''.join('<br>' + escape(line) for line in rest)}</p>")
    parts += [_picture(store), _operators(store, selection)]
    if uid:
        parts.append("<p>Run the cell again for the interactive views.</p>")
    return "".join([*parts, "</div>"])


def without_kernel(uid: str) -> str:
    """A style that hides the output below the static form as long as it holds nothing but a word.

    That is what Jupyter writes where the widget of a saved notebook has no kernel any more (``Error
    displaying widget``); the live views are elements. Where styles are removed the word stays, and nothing
    else changes.
    """
    output = ".jp-OutputArea-child"
    below = f"{output}:has(.nbp-static-{escape(uid, quote=True)}) + {output} > .jp-OutputArea-output"
    return f"<style>{below}:not(:has(*)) {{ display: none; }}</style>"


def _nothing(verdict: str) -> str:
    """What is said of a trace without slices: what may have been the reason, and what to do."""
    lines = [line for line in verdict.split("\n") if line]
    first = next((k for k, line in enumerate(lines) if line.startswith(("!", "✗"))), len(lines))
    told = "".join(f"<p>{escape(line)}</p>" for line in lines[first:])
    return (
        '<p style="font-size:16px"><b>Nothing was recorded: the trace has no slices.</b></p>'
        f"{told}<p>Did the code run while it was recorded? Put <code>%%profile</code> on top of the cell "
        "that trains, or <code>with nbp.profile() as p:</code> around the code. With <code>steps=</code> or "
        "a schedule, the loop must come as far as the first step that is recorded.</p>"
        "<p><code>p.trace.report</code> lists what was found and could not be used.</p>"
    )


def write_report(
    trace: Trace, selection: Selection, path: str | os.PathLike[str], *, verdict: str = ""
) -> None:
    """Write the report: one HTML file with the four linked views, without kernel and network.

    Parameters
    ----------
    trace : Trace
    selection : Selection
        Selected when the file is opened.
    path : path
    verdict : str
    """
    from .report import report_page  # with it come Bokeh's models, for which no static form should wait

    static = fragment(trace, selection, verdict=verdict)
    page = report_page(trace, selection, verdict=verdict, static=static)
    with open(path, "w", encoding="utf-8") as file:
        file.write(page)


def _picture(store: ViewStore) -> str:
    tracks = store.columns.tracks
    span = format_ns(store.trace.span.dur)
    text = f"{format_count(store.columns.n)} slices on {len(tracks)} tracks over {span}"
    peak = store.trace.allocations["allocated"].max() if len(store.trace.allocations) else None
    if peak is not None and np.isfinite(peak):
        text += f", memory peak {format_bytes(float(peak))}"
    shown = sum(track.first_row < MOST_ROWS for track in tracks)
    more = f"; drawn are the first {shown}" if shown < len(tracks) else ""
    image = data_uri(thumbnail(store))
    return (
        f'<p><img alt="timeline: {escape(text, quote=True)}" src="{image}" '
        'style="width:100%;max-width:1000px;border:1px solid #ccc"><br>'
        f"{escape(text)}{more}.</p>"
    )


def _operators(store: ViewStore, selection: Selection) -> str:
    answer = table(store, selection.to_state(), {"by": "name", "top": _ROWS})
    data = answer.arrays()
    count, total, own = data["count"], data["total_ns"], data["self_ns"]
    device, share, codes = data["device_ns"], data["share"], data["name"]
    with_device = bool(device.any())
    heads = ["name", "count", "total", "self", *(["device"] if with_device else []), "self share"]
    lines = [
        "".join(
            f'<th style="{_CELL}{";text-align:left" if head == "name" else ""}">{head}</th>' for head in heads
        )
    ]
    for k, label in enumerate(answer.content["label"]):
        colour = NAMES[int(store.name_colours[codes[k]])]
        swatch = f'<span style="color:{colour}">&#9632;</span> '
        name = label if len(label) <= _NAME else label[: _NAME - 1] + "…"
        cells = [format_count(int(count[k])), format_ns(total[k]), format_ns(own[k])]
        cells += [format_ns(device[k]) if device[k] else ""] if with_device else []
        cells.append(format_share(share[k]))
        row = f'<td style="{_CELL};text-align:left">{swatch}{escape(name)}</td>'
        lines.append(row + "".join(f'<td style="{_CELL}">{escape(cell)}</td>' for cell in cells))
    more = answer.content["rows"] - len(answer.content["label"])
    note = f"<p>and {format_count(more)} more names</p>" if more > 0 else ""
    return "<table>" + "".join(f"<tr>{line}</tr>" for line in lines) + f"</table>{note}"
