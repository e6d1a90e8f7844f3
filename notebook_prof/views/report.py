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
from .answers import meta, names, phases
from .bundle import REPORT, bokehjs, script, stylesheet
from .columns import coded
from .dashboard import dashboard_document, dashboard_settings
from .embedded import embedded
from .packing import Answer
from .reduced import MOST_SLICES, reduced
from .store import ViewStore

_PAGE_STYLE: Final = "body { margin: 12px; font-family: system-ui, sans-serif; } [hidden] { display: none; }"


def report_page(trace: Trace, selection: Selection, *, verdict: str, static: str) -> str:
    """The whole HTML file as text.

    Parameters
    ----------
    trace : Trace
        Of more than a million slices (fewer with many memory events) the longest are in the file, and it
        says so.
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
        return _page([], [], static)
    whole, tabs = trace, embedded(trace)
    memory_events = min(len(trace.allocations), MOST_SLICES)
    trace, note = reduced(trace, MOST_SLICES - memory_events // 2)
    store = ViewStore(trace)
    settings = {**dashboard_settings(trace, verdict), "uid": "", "notice": note, "absent": _absent(trace)}
    data = {
        "nbp-given": given(store),
        "nbp-settings": settings,
        "nbp-document": json.loads(dashboard_document(trace)),
        "nbp-selection": selection.to_state(),
        "nbp-panels": {"tabs": tabs, "focus": trace is whole},
    }
    scripts = [part.decode("utf-8") for part in bokehjs()]
    body = f'<div id="nbp-report" class="nbp-host nbp-report"></div><div id="nbp-static">{static}</div>'
    body += "".join(
        f'<script type="application/json" id="{name}">{_json(value)}</script>' for name, value in data.items()
    )
    return _page(scripts, [script(REPORT)], body)


def given(store: ViewStore) -> dict[str, Any]:
    """What ``local.js`` computes its answers from."""
    c, trace = store.columns, store.trace
    columns: dict[str, Any] = {
        "ts": _packed(c.ts, delta=True),
        "dur": _packed(c.dur),
        "inside": _packed(c.dur - c.self_ns),
        "row": _packed(c.row),
        "name": _packed(c.name),
        "category": _packed(c.category),
        "phase": _packed(c.phase),
        "step": _packed(c.step),
    }
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
        "memory": [_memory(store, device) for device in store.memory_devices],
        "counters": {str(one.track): _counter(store, one.track) for one in store.counters},
        "flowKinds": kinds,
    }


def _counter(store: ViewStore, track: int) -> dict[str, Any]:
    curve = store.counter_curve(track)
    return {"ts": _packed(curve.ts, delta=True), "value": _packed(curve.value, real=True)}


def _memory(store: ViewStore, device: int) -> dict[str, Any]:
    curves = store.memory_curves(device)
    allocated, reserved = curves["allocated"], curves["reserved"]
    resident = device == -1 and store.resident is not None
    none = np.zeros(0, np.int64)
    owner, size = (none, none) if resident else store.memory_owners(device)
    top = int(allocated.value.argmax())
    return {
        "device": device,
        "resident": resident,
        "peak": {"ts": int(allocated.ts[top]), "bytes": int(allocated.value[top])},
        "highest": float(max(allocated.value.max(), reserved.value.max())),
        "reserved": bool((reserved.value > 0).any()),
        "columns": {
            "ts": _packed(allocated.ts, delta=True),
            "allocated": _packed(allocated.value.astype(np.int64)),
            "reserved": _packed(reserved.value.astype(np.int64)),
            "bytes": _packed(size),
            "owner": _packed(owner),
        },
    }


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
