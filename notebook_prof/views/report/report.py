"""The report: one HTML file with the linked views, which needs no kernel or network.

It contains the columns of the trace, delta-coded, byte-shuffled and compressed; the page answers its own
questions (``js/src/report``) with the code of the live view.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timezone
from html import escape
from typing import Any, Final

from ...analysis import Claim
from ...selection import Selection
from ...service.store import ViewStore
from ...trace import Trace
from ...trace.arrays import BoolArray
from ...units import format_count, format_ns
from ..bundle import Entry, bokehjs, script, stylesheet
from ..dashboard import dashboard_document, dashboard_settings
from .html_file import data_blocks, html_page, json_text
from .report_columns import FilePart, has_stacks, payload
from .tabs import embedded

MOST_SLICES: Final = 1_000_000
"""The number of slices in a report of 12 MB."""

# The origin of a recording: the line at the top of a report.

_OLDEST_NS: Final = 10**18
"""2001 in ns since the epoch. Earlier times come from clocks that start with the machine."""
_VERSIONS: Final = {
    "python": "Python",
    "torch_version": "torch",
    "jax_version": "JAX",
    "cupy_version": "CuPy",
    "mindspore": "MindSpore",
    "viztracer": "VizTracer",
}
_OPTIONS: Final = {
    "record_shapes": "shapes",
    "with_stack": "stacks",
    "profile_memory": "memory",
    "with_modules": "modules",
    "with_flops": "FLOPs",
}
_LONGEST: Final = 120


def provenance(trace: Trace) -> dict[str, str]:
    """Return what is known of ``file recorded format host devices versions options``, by label."""
    metadata = trace.metadata
    kineto = metadata.get("kineto")
    kineto = kineto if isinstance(kineto, Mapping) else {}
    devices = Counter(str(name) for name in metadata.get("devices") or ())
    options = [text for key, text in _OPTIONS.items() if kineto.get(key)]
    if steps := metadata.get("steps_requested"):
        options.insert(0, f"steps {steps}")
    facts = {
        "file": str(metadata.get("file") or ""),
        "recorded": _date(metadata.get("start_unix_ns")),
        "format": str(metadata.get("source") or ""),
        "host": str(metadata.get("host") or ""),
        "devices": ", ".join(f"{count} × {name}" if count > 1 else name for name, count in devices.items()),
        "versions": ", ".join(_versions(metadata, kineto)),
        "options": ", ".join(options),
    }
    return {label: text[:_LONGEST] for label, text in facts.items() if text}


def header(trace: Trace) -> str:
    """Return `provenance` as escaped HTML."""
    parts = [
        f'<span title="{escape(label)}">{escape(text)}</span>' for label, text in provenance(trace).items()
    ]
    return f'<header class="nbp-provenance">{" · ".join(parts)}</header>' if parts else ""


def _date(start_ns: object) -> str:
    if not isinstance(start_ns, int) or start_ns < _OLDEST_NS:
        return ""
    try:
        return datetime.fromtimestamp(start_ns / 1e9, timezone.utc).strftime("%Y-%m-%d %H:%M UTC")
    except (ValueError, OverflowError, OSError):
        return ""


def _versions(metadata: Mapping[str, Any], kineto: Mapping[str, Any]) -> Iterator[str]:
    for key, name in _VERSIONS.items():
        if metadata.get(key):
            yield f"{name} {metadata[key]}"
    if isinstance(cuda := kineto.get("cuda_runtime_version"), int):
        yield f"CUDA {cuda // 1000}.{cuda % 1000 // 10}"  # CUDA_VERSION: 1000 major + 10 minor
    if isinstance(hip := kineto.get("hip_runtime_version"), int):
        yield f"HIP {hip // 10**7}.{hip % 10**7 // 10**5}"  # HIP_VERSION: 10^7 major + 10^5 minor + patch


MOST_BYTES: Final = 15_000_000
"""Size limit of a report, exceeded only with very many names."""
MOST_EVENTS: Final = 100_000
"""Limit of a device's memory events; of the others, the extremes are kept."""
_MOST_WITH_SUMS: Final = 750_000
"""Number of slices to start with if the file also has sums of others."""
_FEWEST: Final = 10_000
_AROUND: Final = 20_000
"""Bytes reserved for tags, policy, settings and notice."""
_NO_STACKS: Final = "Stacks are not in this file: open the profile in a notebook to see them."
_BODY_STYLE: Final = "body { margin: 12px; font-family: system-ui, sans-serif; } [hidden] { display: none; } "
_PAGE_STYLE: Final = (
    ".nbp-nothing { max-width: 620px; margin: 14vh auto; padding: 14px 28px 18px; line-height: 1.5; "
    "border: 1px solid #8884; border-left: 4px solid #1976d2; border-radius: 4px; } "
    ".nbp-provenance { color: #595959; font-size: 12px; margin: 0 2px 6px; } "
    "@media (prefers-color-scheme: dark) { .nbp-provenance { color: #bdbdbd; } "
    "body:has(> .nbp-nothing) { background: #111; color: #eee; } }"
)


def report_page(
    trace: Trace,
    selection: Selection,
    *,
    verdict: str,
    static: str,
    claims: Iterable[Claim] = (),
    title: str = "",
) -> str:
    """Return the whole HTML file as text; `static` is shown if scripts do not run."""
    # With over a million slices, or if the file would exceed 15 MB, it contains the longest slices and sums
    # of the others (`FilePart`); memory curves are thinned first. The file says what is left out.
    named, look = f"{title} · notebook_prof" if title else "notebook_prof report", _PAGE_STYLE + stylesheet()
    if not len(trace.slices):
        nothing = f'<main class="nbp-nothing">{static}</main>'
        return html_page([], [], nothing, _BODY_STYLE + look, named)
    data = {"nbp-selection": json_text(selection.to_state())}
    room = bytes_left("profile_report", look, static, data)
    data |= trace_blocks(trace, verdict, room, claims=claims)
    return report_file("profile_report", look, static, data, named, header(trace))


def bytes_left(entry: Entry, style: str, static: str, data: Mapping[str, str]) -> int:
    """Return how many bytes of recordings a report has room for beside these parts."""
    texts = [script(entry), style, static, *data.values()]
    return MOST_BYTES - _AROUND - sum(map(len, bokehjs())) - sum(len(text.encode()) for text in texts)


def report_file(
    entry: Entry, style: str, static: str, data: Mapping[str, str], title: str, header: str = ""
) -> str:
    """Return a page with its data as one HTML file; `static` is shown if scripts do not run."""
    # Data of recordings is JSON with ``<`` escaped, base64 or escaped HTML, and the Content-Security-Policy
    # allows only the file's own scripts, by their hashes.
    body = f'<div id="nbp-report" class="nbp-host nbp-report"></div><div id="nbp-static">{static}</div>'
    scripts = [part.decode("utf-8") for part in bokehjs()]
    page = header + body + data_blocks(data)
    return html_page(scripts, [script(entry)], page, _BODY_STYLE + style, title)


def trace_blocks(
    trace: Trace,
    verdict: str,
    room: int,
    prefix: str = "nbp-",
    claims: Iterable[Claim] = (),
    with_tabs: bool = True,
) -> dict[str, str]:
    """Return a trace with slices as `data_blocks` for ``openGiven`` of ``js/src/report/file/unpack.js``."""
    # The texts take at most `room` bytes; the ``notice`` says what is left out. `prefix` is that of the ids.
    panels = {"tabs": embedded(trace) if with_tabs else {}}
    settings = {**dashboard_settings(trace, verdict, claims), "uid": ""}
    document = json_text(json.loads(dashboard_document(trace)))
    room -= sum(len(text.encode()) for text in (document, json_text(settings), json_text(panels)))
    store = ViewStore(trace, fold=True)
    columns, settings["notice"], whole = _columns_that_fit(store, room)
    left_out = not has_stacks(store, whole) and trace.slices["stack"].notna().any()
    settings["absent"] = _NO_STACKS if left_out else ""
    parts = {
        "document": document,
        "given": columns,
        "settings": json_text(settings),
        "panels": json_text({**panels, "focus": whole}),
    }
    return {f"{prefix}{name}": text for name, text in parts.items()}


def _columns_that_fit(store: ViewStore, room: int) -> tuple[str, str, bool]:
    """Return the columns that fit, as JSON; what is left out; and whether every slice is included."""
    n = store.columns.n
    most, events = n if n <= MOST_SLICES else min(_MOST_WITH_SUMS, MOST_SLICES), MOST_SLICES
    while True:
        part = FilePart.of(store, most)
        if part is not None and store.columns.nested_row is not store.columns.row:
            store = ViewStore(store.trace)  # sums of what is left out know rows inside of one another only
            part = FilePart.of(store, most)
        columns = json_text(payload(store, part, events))
        size = len(columns.encode())
        if size <= room or most <= _FEWEST:
            note = "" if part is None else note_of(store, part.keep, part.cells.width_ns)
            return columns, " ".join(filter(None, (note, _thinned(store, events)))), part is None
        if events > MOST_EVENTS and _thinned(store, MOST_EVENTS):
            events = MOST_EVENTS
        else:  # names and steps keep their size: shrink more than in proportion
            most = max(_FEWEST, int(min(most, 0.9 * n) * min(0.95, 0.98 * room / size)))


def _thinned(store: ViewStore, most: int) -> str:
    """Return a sentence if memory curves are thinner than recorded."""
    sizes = (len(store.memory_curves(device)["allocated"].ts) for device in store.memory_devices)
    events = max(sizes, default=0)
    if events <= most:
        return ""
    return (
        f"Of {format_count(events)} memory events the file has the lowest and the highest of each stretch, "
        "not what the selection allocated."
    )


def note_of(store: ViewStore, keep: BoolArray, cell_ns: int) -> str:
    """Return what is left out, in sentences; the sums of the others are in cells of `cell_ns`."""
    kept, n, least = int(keep.sum()), len(keep), int(store.columns.dur[~keep].max())
    return (
        f"This file has {format_count(kept)} of {format_count(n)} slices one by one: all of more than "
        f"{format_ns(least)}, and the longest of every track. For the other {format_count(n - kept)} it has "
        f"how busy they keep every row, in cells of {format_ns(cell_ns)}, and the totals of every name. "
        "Numbers of the whole recording are exact; those of a part of it are estimates, marked ≈; "
        "search finds only the slices in the file. Every slice is in the trace itself: open it in a "
        "notebook."
    )
