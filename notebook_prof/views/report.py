"""The report: one HTML file with the linked views, that needs neither kernel nor network.

The columns of the trace lie in it, delta-coded, byte-shuffled and compressed; the page answers its own
questions (``static/local.js``) with the code that the live view uses.
"""

from __future__ import annotations

import base64
import hashlib
import json
import zlib
from html import escape
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ..selection import Selection
from ..trace import Trace
from ..units import format_count
from .answers import meta, names, phases
from .bundle import REPORT, bokehjs, script, stylesheet
from .columns import coded
from .dashboard import dashboard_document, dashboard_settings
from .embedded import embedded
from .packing import Answer
from .reduced import MOST_SLICES, reduced
from .store import ViewStore

MOST_BYTES: Final = 15_000_000
"""No report is longer, but for one of very many names."""
MOST_EVENTS: Final = 100_000
"""Of a device's memory events, where all would be too many; of the others the extremes are kept."""
_FEWEST: Final = 10_000
_AROUND: Final = 4_000
"""Bytes of tags, policy and notice around the parts."""
_PAGE_STYLE: Final = (
    "body { margin: 12px; font-family: system-ui, sans-serif; } [hidden] { display: none; } "
    ".nbp-nothing { max-width: 620px; margin: 14vh auto; padding: 14px 28px 18px; line-height: 1.5; "
    "border: 1px solid #8884; border-left: 4px solid #1976d2; border-radius: 4px; } "
    "@media (prefers-color-scheme: dark) { body:has(> .nbp-nothing) { background: #111; color: #eee; } }"
)


def report_page(trace: Trace, selection: Selection, *, verdict: str, static: str) -> str:
    """The whole HTML file as text.

    Parameters
    ----------
    trace : Trace
        Of more than a million slices the longest are in the file; where it would be longer than 15 MB, thin
        memory curves and then fewer slices. The file says what is left out.
    selection : Selection
        Selected when the file is opened.
    verdict : str
    static : str
        HTML shown where scripts do not run.

    Notes
    -----
    Everything in the file that comes from the trace is JSON with ``<`` escaped, or base64. Its
    Content-Security-Policy allows only the scripts of the file itself, by their hashes.
    """
    if not len(trace.slices):
        return _page([], [], f'<main class="nbp-nothing">{static}</main>')
    scripts = [part.decode("utf-8") for part in bokehjs()]
    whole, tabs = trace, embedded(trace)
    settings = {**dashboard_settings(whole, verdict), "uid": "", "absent": _absent(whole)}
    data = {
        "nbp-document": _json(json.loads(dashboard_document(whole))),
        "nbp-selection": _json(selection.to_state()),
    }
    texts = (*scripts, script(REPORT), stylesheet(), static, _json(settings), _json(tabs), *data.values())
    room = MOST_BYTES - _AROUND - sum(len(text.encode()) for text in texts)
    trace, data["nbp-given"], settings["notice"] = _fitting(whole, room)
    data["nbp-settings"] = _json(settings)
    data["nbp-panels"] = _json({"tabs": tabs, "focus": trace is whole})
    body = f'<div id="nbp-report" class="nbp-host nbp-report"></div><div id="nbp-static">{static}</div>'
    body += "".join(
        f'<script type="application/json" id="{name}">{text}</script>' for name, text in data.items()
    )
    return _page(scripts, [script(REPORT)], body)


def _fitting(whole: Trace, room: int) -> tuple[Trace, str, str]:
    """The trace, or as much of it as has room; its columns as JSON; what is left out."""
    most, events = MOST_SLICES, MOST_SLICES
    while True:
        trace, note = reduced(whole, most)
        store = ViewStore(trace)
        columns = _json(given(store, events))
        size = len(columns.encode())
        if size <= room or most <= _FEWEST:
            return trace, columns, " ".join(filter(None, (note, _thinned(store, events))))
        if events > MOST_EVENTS and _thinned(store, MOST_EVENTS):
            events = MOST_EVENTS
        else:  # names and steps stay as long as they are: less than in proportion
            most = max(_FEWEST, int(min(most, len(trace.slices)) * min(0.95, 0.98 * room / size)))


def given(store: ViewStore, events: int = MOST_SLICES) -> dict[str, Any]:
    """What ``local.js`` computes its answers from; memory curves of at most so many points."""
    c, trace = store.columns, store.trace
    columns: dict[str, Any] = {
        "ts": _packed(c.ts, delta=True),
        "dur": _packed(c.dur),
        "row": _packed(c.row),
        "name": _packed(c.name),
        "category": _packed(c.category),
        "phase": _packed(c.phase),
        "step": _packed(c.step),
    }
    inside = c.dur - c.self_ns
    if not np.array_equal(inside, store.rows.covered(c.row_below[c.row], c.ts, c.ts + c.dur)):
        columns["inside"] = _packed(inside)  # else the page can tell from the rows
    work, launcher = store.launches
    again, _ = store.again
    columns |= {
        "work": _packed(work, delta=True),
        "launcher": _packed(launcher),
        "again": _packed(again, delta=True),
    }
    if store.extent is not None:
        columns["extent"] = _packed(store.extent - c.dur)
    head = _contents(meta(store, {}, {}))
    groups: dict[str, Any] = {}
    for by in ("shapes", "module"):
        if by in head["content"]["groupings"]:
            codes, of_name, details = store.grouping(by)
            columns[by] = _packed(codes)
            groups[by] = (
                {"labels": details} if by == "module" else {"names": of_name.tolist(), "details": details}
            )
    kind, kinds = coded(trace.flows["kind"])
    columns |= {
        "flow_src": _packed(trace.flows["src"].to_numpy()),
        "flow_dst": _packed(trace.flows["dst"].to_numpy()),
    }
    columns["flow_kind"] = _packed(kind)
    return {
        "columns": columns,
        "meta": head["content"],
        "steps": head["data"],
        "names": _all_names(store),
        "colours": store.name_colours.tolist(),
        "trackOfRow": c.track_of_row.tolist(),
        "groups": groups,
        "phases": _contents(phases(store, {}, {})),
        "memory": [_memory(store, device, events) for device in store.memory_devices],
        "counters": {str(one.track): _counter(store, one.track) for one in store.counters},
        "flowKinds": kinds,
    }


def _counter(store: ViewStore, track: int) -> dict[str, Any]:
    curve = store.counter_curve(track)
    return {"ts": _packed(curve.ts, delta=True), "value": _packed(curve.value, real=True)}


def _memory(store: ViewStore, device: int, most: int) -> dict[str, Any]:
    curves = store.memory_curves(device)
    allocated, reserved = curves["allocated"], curves["reserved"]
    resident = device == -1 and store.resident is not None
    none = np.zeros(0, np.int64)
    rows = _extremes(allocated.value, most) if len(allocated.ts) > most else slice(None)
    # which slice allocated a block is told only where every event is there
    known = not resident and isinstance(rows, slice)
    owner, size = store.memory_owners(device) if known else (none, none)
    top = int(allocated.value.argmax())
    return {
        "device": device,
        "resident": resident,
        "peak": {"ts": int(allocated.ts[top]), "bytes": int(allocated.value[top])},
        "highest": float(max(allocated.value.max(), reserved.value.max())),
        "reserved": bool((reserved.value > 0).any()),
        "columns": {
            "ts": _packed(allocated.ts[rows], delta=True),
            "allocated": _packed(allocated.value[rows].astype(np.int64)),
            "reserved": _packed(reserved.value[rows].astype(np.int64)),
            "bytes": _packed(size),
            "owner": _packed(owner),
        },
    }


def _extremes(values: npt.NDArray[Any], most: int) -> npt.NDArray[np.int64]:
    """Rows of the lowest, the highest and the last value of each stretch, about `most` in all."""
    wide = -(-len(values) // (most // 3))
    full = len(values) // wide * wide
    stretches = values[:full].reshape(-1, wide)
    first = np.arange(0, full, wide)
    chosen = (first + stretches.argmin(axis=1), first + stretches.argmax(axis=1), first + wide - 1)
    return np.unique(np.concatenate([*chosen, np.arange(full, len(values))]))


def _thinned(store: ViewStore, most: int) -> str:
    """A sentence where memory curves are thinner than what was recorded."""
    sizes = (len(store.memory_curves(device)["allocated"].ts) for device in store.memory_devices)
    events = max(sizes, default=0)
    if events <= most:
        return ""
    return (
        f"Of {format_count(events)} memory events the file holds the lowest and the highest of each stretch, "
        "not what the selection allocated."
    )


def _all_names(store: ViewStore) -> list[str]:
    out: list[str] = []
    start: int | None = 0
    while start is not None and store.columns.names:
        page = names(store, {}, {"start": start}).content
        out += page["names"]
        start = page["next"]
    return out


def _contents(answer: Answer) -> dict[str, Any]:
    columns = answer.content.pop("columns")
    data = {
        name: np.frombuffer(part, np.dtype("<" + kind)).tolist()
        for (name, kind), part in zip(columns, answer.buffers, strict=True)
    }
    return {"content": answer.content, "data": data}


def _packed(values: npt.NDArray[Any], delta: bool = False, real: bool = False) -> dict[str, Any]:
    """Smallest integers that hold the values (floats beyond 32 bits), shuffled by byte, deflated, base64."""
    numbers = np.diff(values, prepend=0) if delta else np.asarray(values)
    low, high = (int(numbers.min()), int(numbers.max())) if len(numbers) else (0, 0)
    kinds = ("u1", "u2", "u4", "i4") if low >= 0 else ("i4",)
    kind = (
        "f8" if real else next((k for k in kinds if np.iinfo(k).min <= low and high <= np.iinfo(k).max), "f8")
    )
    raw = np.ascontiguousarray(numbers.astype("<" + kind)).view(np.uint8).reshape(-1, np.dtype(kind).itemsize)
    text = base64.b64encode(zlib.compress(np.ascontiguousarray(raw.T).tobytes(), 6)).decode("ascii")
    return {"data": text, "type": kind, "delta": delta}


def _json(value: object) -> str:
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def _page(scripts: list[str], modules: list[str], body: str) -> str:
    hashes = " ".join(f"'sha256-{_digest(text)}'" for text in (*scripts, *modules)) or "'none'"
    policy = f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; "
    policy += "img-src data: blob:; font-src data:"
    head = (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{escape(policy, quote=True)}">'
        '<meta name="color-scheme" content="light dark">'
        f"<title>notebook_prof report</title><style>{_PAGE_STYLE}{stylesheet()}</style></head><body>"
    )
    code = "".join(f"<script>{text}</script>" for text in scripts)
    code += "".join(f'<script type="module">{text}</script>' for text in modules)
    return f"{head}{body}{code}</body></html>\n"


def _digest(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")


def _absent(trace: Trace) -> str:
    """What the file does not carry, in a sentence; empty where nothing is missing."""
    if trace.slices["stack"].notna().any():
        return "Stacks are not in this file: open the profile in a notebook to see them."
    return ""
