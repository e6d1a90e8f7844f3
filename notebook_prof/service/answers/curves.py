"""Curves over time: memory of a device with its peak, and counters as step lines."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from ..packing import Answer, pack
from ..selected_rows import matching_key
from ..store import ViewStore


def memory(store: ViewStore, state: Mapping[str, Any], request: Mapping[str, Any]) -> Answer:
    """Return allocated (or resident), reserved and selected bytes of a device, default the one with the
    highest peak.
    """
    devices = store.memory_devices
    if not devices:
        empty = np.empty(0)
        return pack({"device": None}, dict.fromkeys(("x", "y", "rx", "ry", "sx", "sy"), empty))
    device = int(request.get("device", devices[0]) if request.get("device") is not None else devices[0])
    device = device if device in devices else devices[0]
    a, b, width = float(request["a"]), float(request["b"]), max(1, min(int(request.get("px", 1000)), 4000))
    curves = store.memory_curves(device)
    x, y = curves["allocated"].sample(a, b, width)
    rx, ry = np.empty(0), np.empty(0)
    if (curves["reserved"].value > 0).any():
        rx, ry = curves["reserved"].sample(a, b, width)
    key = matching_key(state, without=("window",))
    sx, sy = np.empty(0), np.empty(0)
    chosen, part = store.selected_memory(device, key), "selection"
    if chosen is None and "blocks" in curves and len(curves["blocks"].ts):
        chosen, part = curves["blocks"], "blocks"
    if chosen is not None:
        sx, sy = chosen.sample(a, b, width)
    ts, value = curves["allocated"].ts, curves["allocated"].value
    top = int(value.argmax())
    content = {
        "device": device,
        "part": part,
        "peak": {"ts": int(ts[top]), "bytes": int(value[top])},
        "window_peak": _window_peak(state, ts, value),
        "highest": float(max(value.max(), curves["reserved"].value.max())),
        "lowest": float(min(value.min(), 0.0)),
    }
    return pack(content, {"x": x, "y": y, "rx": rx, "ry": ry, "sx": sx, "sy": sy})


def _window_peak(state: Mapping[str, Any], ts: Any, value: Any) -> dict[str, int] | None:
    if state.get("window") is None:
        return None
    start, end = state["window"]
    i = max(int(np.searchsorted(ts, start, "right")) - 1, 0)
    j = int(np.searchsorted(ts, end, "left"))
    if j <= i:
        return None
    top = i + int(value[i:j].argmax())
    return {"ts": int(ts[top]), "bytes": int(value[top])}


_MOST: Final = 24


def counters(store: ViewStore, state: Mapping[str, Any], request: Mapping[str, Any]) -> Answer:
    """Return the values of some counter tracks in a window, one track after another."""
    a, b, width = float(request["a"]), float(request["b"]), max(1, min(int(request.get("px", 1000)), 4000))
    drawn_tracks = {drawn.track for drawn in store.counters}
    tracks = [int(key) for key in request.get("tracks", ()) if int(key) in drawn_tracks][:_MOST]
    parts = [store.counter_curve(key).sample(a, b, width) for key in tracks]
    empty = np.empty(0)
    columns = {
        "x": np.concatenate([x for x, _ in parts]) if parts else empty,
        "y": np.concatenate([y for _, y in parts]) if parts else empty,
    }
    return pack({"tracks": tracks, "sizes": [len(x) for x, _ in parts]}, columns)
