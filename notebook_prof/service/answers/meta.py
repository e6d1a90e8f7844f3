"""Facts that a page needs once: span, tracks, steps, colours, names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pandas as pd

from ...analysis.busy_time import stream_busy_times
from ...analysis.name_labels import module_classes, with_classes
from ...analysis.time.account import account_spans
from ...analysis.trust.doubts import doubts_by_name
from ...trace import Trace
from .. import palette
from ..columns import DrawnTrack
from ..packing import Answer, pack
from ..store import GROUPINGS, TINTS, ViewStore

# The meaning of the timeline's colours.

_MOST: Final = 12


def legend(store: ViewStore, state: Mapping[str, Any], request: Mapping[str, Any]) -> Answer:
    """Return up to 12 colours by share of all self time, largest first, and the number of further ones."""
    tint = str(request.get("tint", "name"))
    tint = tint if tint in TINTS else "name"
    content: dict[str, Any] = store.keep(("legend", tint), lambda: _legend(store, tint))
    return pack(dict(content), {})


def _legend(store: ViewStore, tint: str) -> dict[str, Any]:
    c = store.columns
    if tint == "step":
        steps = np.unique(c.step[c.step >= 0])
        code = np.where(c.step < 0, -1, np.searchsorted(steps, c.step))
        texts = [f"step {k}" for k in steps.tolist()]
        colours = [palette.NAMES[k % palette.HUES] for k in steps.tolist()]
    elif tint == "module":
        code, _, paths = store.grouping("module")
        texts = with_classes(paths, module_classes(store.trace))
        colours = [palette.NAMES[k] for k in store.module_colours.tolist()]
    elif tint == "name":
        code, texts, colours = _families(store)
    else:
        code, texts = (c.phase, c.phases) if tint == "phase" else (c.category, c.categories)
        colour_of = palette.PHASES if tint == "phase" else palette.CATEGORIES
        colours = [colour_of.get(text, palette.UNKNOWN) for text in texts]
    return _items(code, c.self_ns, texts, colours, f"no {tint}")


def _families(store: ViewStore) -> tuple[npt.NDArray[np.integer], list[str], list[str]]:
    """Return every slice's family, and the families' texts and colours; annotations are one family."""
    styles, name = store.name_styles, store.columns.name
    texts = [
        "annotations" if code == palette.HUES else family
        for family, code in zip(styles.families, styles.codes.tolist(), strict=True)
    ]
    of_name, families = pd.factorize(np.array(texts, dtype=object))
    colour = np.zeros(len(families), np.uint8)
    colour[of_name] = styles.codes
    code = np.append(of_name, -1)[name]  # code -1 (no name) reads the last
    return code, [str(text) for text in families], [palette.NAMES[k] for k in colour.tolist()]


def _items(
    code: npt.NDArray[np.integer],
    own: npt.NDArray[np.int64],
    texts: Sequence[str],
    colours: Sequence[str],
    missing: str,
) -> dict[str, Any]:
    spent = np.bincount(code.astype(np.int64) + 1, weights=own, minlength=len(texts) + 1)
    present = np.bincount(code.astype(np.int64) + 1, minlength=len(texts) + 1) > 0
    whole = max(float(spent.sum()), 1.0)
    order = [k for k in (np.argsort(-spent[1:], kind="stable") + 1).tolist() if present[k]]
    most = _MOST - int(present[0])
    items = [[texts[k - 1], colours[k - 1], float(spent[k] / whole)] for k in order[:most]]
    if present[0]:
        items.append([missing, palette.UNKNOWN, float(spent[0] / whole)])
    return {"items": items, "more": max(len(order) - most, 0)}


_NAME_BYTES: Final = 400_000
_LONGEST_NAME: Final = 100_000
_MOST_STEPS: Final = 20_000


# ``busy`` of a stream is a share of its device's window, as in `analysis.device`; for any other track, of the
# recording. Computing doubts takes seconds for a long recording, so ``doubts="later"`` leaves them out.
def meta(store: ViewStore, state: Mapping[str, Any], request: Mapping[str, Any]) -> Answer:
    """Return span, tracks with their rows and busy shares, the first 20,000 steps, categories and colours."""
    c, trace = store.columns, store.trace
    span = max(trace.span.dur, 1)
    streams = stream_busy_times(trace) if any(t.kind == "stream" for t in c.tracks) else {}
    steps = trace.steps.head(_MOST_STEPS)
    shares = [
        streams[t.track].share if t.track in streams else float(busy) / span
        for t, busy in zip(c.tracks, c.busy_ns.tolist(), strict=True)
    ]
    content = {
        "span": [int(trace.span.start), int(max(trace.span.end, trace.span.start + 1))],
        "work": [int(c.ts.min()), int((c.ts + c.dur).max())] if c.n else [0, 1],
        "slices": c.n,
        "tracks": [_told(track, busy) for track, busy in zip(c.tracks, shares, strict=True)],
        "unfolded": [_told(track, busy) for track, busy in zip(c.unfolded, shares, strict=False)],
        "names": len(c.names),
        "categories": c.categories,
        "phases": c.phases,
        "lines": c.lines,
        "tints": [tint for tint in TINTS if tint == "name" or _is_used(store, tint)],
        "groupings": [by for by in GROUPINGS if by == "name" or _is_used(store, by)],
        "device": any(track.kind == "stream" for track in c.tracks),
        "memory": store.memory_devices,
        "resident": store.resident is not None,
        "counters": [counter._asdict() for counter in store.counters],
        "steps": len(trace.steps),
        **_raised(trace),
        **({} if request.get("doubts") == "later" else doubts(store, state, request).content),
        "steps_source": str(trace.metadata.get("steps_source") or next(iter(trace.steps["source"]), "")),
        "colours": {
            "names": list(palette.NAMES),
            "phases": [palette.PHASES.get(name, "#B4B4B4") for name in c.phases],
            "categories": [palette.CATEGORIES.get(name, "#C9C9C9") for name in c.categories],
            "phase": palette.PHASES,
            "step": palette.STEP,
            "resource": palette.RESOURCE,
            "account": palette.ACCOUNT,
            "memory": palette.MEMORY,
            "counter": palette.COUNTER,
        },
    }
    columns = {
        "step": steps["step"].to_numpy(np.int32),
        "ts": steps["ts"].to_numpy(np.float64),
        "dur": steps["dur"].to_numpy(np.float64),
    }
    return pack(content, columns)


def _told(t: DrawnTrack, busy: float) -> dict[str, Any]:
    fields = asdict(t)
    return {"row": fields.pop("first_row"), **fields, "busy": round(busy, 6)}


def _raised(trace: Trace) -> dict[str, Any]:
    """Return the exception that ended the cell, its lines, and its instant: the end of the account."""
    raised = trace.metadata.get("raised")
    if not isinstance(raised, Mapping) or not len(spans := account_spans(trace)):
        return {}
    last = spans[spans["line"] == raised["line"]]
    end = int((last["ts"] + last["dur"]).max()) if len(last) else int((spans["ts"] + spans["dur"]).max())
    line, at = int(raised["line"]), int(raised.get("at", raised["line"]))
    return {"raised": {"error": str(raised["error"]), "line": line, "at": at, "ts": end}}


def doubts(store: ViewStore, state: Mapping[str, Any], request: Mapping[str, Any]) -> Answer:
    """Return the names that the trust report doubts, and why."""
    return Answer({"doubts": doubts_by_name(store.trace), "columns": []})


def names(store: ViewStore, state: Mapping[str, Any], request: Mapping[str, Any]) -> Answer:
    """Return about 400 kB of names from code ``start`` on, unabridged, since a click selects by name."""
    every = store.columns.names
    start = int(request.get("start", 0))
    page: list[str] = []
    room = _NAME_BYTES
    for name in every[start:]:
        page.append(name[:_LONGEST_NAME])
        room -= len(page[-1]) + 3
        if room < 0:
            break
    stop = start + len(page)
    labels = store.name_styles.labels[start:stop]
    short = ["" if label == name else label for label, name in zip(labels, page, strict=True)]
    return pack(
        {"start": start, "names": page, "short": short, "next": stop if stop < len(every) else None},
        {"colour": store.name_styles.codes[start:stop]},
    )


def _is_used(store: ViewStore, by: str) -> bool:
    if by == "category":
        return len(store.columns.categories) > 1
    return bool(store.trace.slices[by].notna().any())
