"""Tables under a selection, as columns of the figures' sources, ranges and tooltips."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import pandas as pd

from ...units import format_bytes, format_count, format_ns, format_share
from .frames import BUBBLES, PARTS, TALK, PageFrames, medians

FADED: Final = 0.18
MAX_CELLS: Final = 100_000
MAX_LINES: Final = 1_000
MAX_TALK: Final = 12
ROOM: Final = 1.06
CLICK: Final = "click: select this group and its ranks"
NOTES: Final = {
    "bars": "There is no step in the selection.",
    "late": "There is no shared collective in the selection.",
    "heat": "There is no step in the selection.",
    "talk": "There is no communication in the selection.",
    "links": "There is no message in the selection.",
    "bubbles": "There is no step of a pipeline in the selection.",
    "together": "All ranks arrive at shared collectives at the same time.",
}
"""Text shown in place of an empty figure."""
_HALF: Final = 0.5

Drawn = dict[str, Any]


def page_columns(frames: PageFrames, state: Mapping[str, Any], panels: Sequence[str]) -> dict[str, Drawn]:
    """Return everything that the figures show, by panel: sources, ranges, tooltips, and click targets."""
    # Unselected ranks and steps are pale in figures with an axis for them; other figures show only the
    # selection. The heat map and Marey's figure have a row for each rank and step: the page makes their texts
    # from ``x y value`` and ``y step left right``.
    state = {**state, "rank": frames.emphasised}
    drawn = {name: _DRAWN[name](frames, state) for name in panels}
    for name, panel in drawn.items():
        if name in NOTES and not panel["sources"][f"{name}_data"]["alpha"]:
            panel["note"] = NOTES[name]
    return drawn


def rank_rows(ranks: pd.DataFrame, most: int) -> dict[str, Any]:
    """Return the table of the ranks as text: headings, cells by row, and the number of rows left out."""
    columns = [name for name in ranks if name != "rank"]
    heads = [_head(str(name)) for name in columns]
    shown = ranks.head(most)
    cells = [[_cell(str(name), value) for value in shown[name].tolist()] for name in columns]
    rows = [list(row) for row in zip(*cells, strict=True)]
    return {"heads": heads, "ranks": shown["rank"].tolist(), "rows": rows, "more": len(ranks) - len(shown)}


def _head(name: str) -> str:
    if name == "flops_per_s":
        return "FLOP/s"
    return name.rsplit("_", 1)[0].replace("_", " ")


def _cell(name: str, value: Any) -> str:
    if value is None or pd.isna(value):
        return "–"
    if name.endswith("_text"):
        return str(value)
    if name.endswith("_share"):
        return format_share(float(value))
    if name.endswith("_bytes"):
        return format_bytes(int(value))
    if name.endswith("flops_per_s"):
        return f"{float(value) / 1e9:,.2f} G/s"
    return format_ns(float(value))


def _alpha(values: Any, chosen: Any) -> list[float]:
    if chosen is None:
        return [1.0] * len(values)
    alpha: list[float] = np.where(np.isin(np.asarray(values), chosen), 1.0, FADED).tolist()
    return alpha


def _as_integers(values: Any) -> list[int]:
    """Round to integers, which are shorter to write."""
    numbers: list[int] = np.rint(values).astype(np.int64).tolist()
    return numbers


def _padded_range(values: Any) -> list[float]:
    if not len(values):
        return [-_HALF, _HALF]
    return [float(np.min(values)) - _HALF, float(np.max(values)) + _HALF]


def _stacked(table: pd.DataFrame, parts: Mapping[str, tuple[str, str]], ends: tuple[str, str]) -> Drawn:
    columns: Drawn = {}
    sums = np.zeros(len(table))
    for name in parts:
        value = table[name].to_numpy(np.float64)
        columns[f"{name}_{ends[0]}"], columns[f"{name}_{ends[1]}"] = sums.tolist(), (sums + value).tolist()
        sums = sums + value
    return {**columns, "_most": float(sums.max()) if len(sums) else 1.0}


def _part_texts(table: pd.DataFrame, parts: Mapping[str, tuple[str, str]]) -> list[str]:
    texts = [
        [f"{label} {format_ns(float(value))}" for value in table[name].tolist()]
        for name, (label, _) in parts.items()
    ]
    return ["\n".join(lines) for lines in zip(*texts, strict=True)] if len(table) else []


def _of_ranks(panel: str, table: pd.DataFrame, parts: Mapping[str, tuple[str, str]], state: Any) -> Drawn:
    """Stack bars, one bar per rank."""
    rank = table["rank"].tolist()
    columns = _stacked(table, parts, ("bottom", "top"))
    most = columns.pop("_most")
    columns |= {"rank": rank, "alpha": _alpha(rank, state.get("rank"))}
    tips = [f"rank {r}\n{text}" for r, text in zip(rank, _part_texts(table, parts), strict=True)]
    return {"sources": {f"{panel}_data": columns}, "x": _padded_range(rank), "y": [0, ROOM * max(most, 1)],
            "tips": tips, "rank": rank}  # fmt: skip


def _bubbles(frames: PageFrames, state: Mapping[str, Any]) -> Drawn:
    drawn = _of_ranks("bubbles", frames.bubbles, BUBBLES, state)
    stage = frames.bubbles["stage"].tolist()
    drawn["tips"] = [f"stage {s} · {tip}" for s, tip in zip(stage, drawn["tips"], strict=True)]
    return drawn


def _late(frames: PageFrames, state: Mapping[str, Any]) -> Drawn:
    table = frames.late
    rank, top = table["rank"].tolist(), table["mean_late_ns"].to_numpy(np.float64)
    tips = []
    rows = zip(rank, top.tolist(), table["last_share"].tolist(), table["before"].tolist(), strict=True)
    for number, late, share, before in rows:
        tip = f"rank {number}\nlate by {format_ns(late)}\narrives last in {format_share(share)}"
        tips.append(tip + (f"\nbefore that: {before}" if isinstance(before, str) and share else ""))
    at = list(range(len(rank)))
    columns = {"at": at, "top": top.tolist(), "alpha": _alpha(rank, state.get("rank"))}
    most = max(float(top.max()) if len(top) else 0.0, 1_000.0)
    note = {"note": NOTES["together"]} if rank and not top.any() else {}
    return {"sources": {"late_data": columns}, "x": _padded_range(at), "y": [0, ROOM * most], "tips": tips,
            "rank": rank, "labels": [str(number) for number in rank], **note}  # fmt: skip


def _heat(frames: PageFrames, state: Mapping[str, Any]) -> Drawn:
    cells = frames.heat.head(MAX_CELLS)
    value = cells["value"].to_numpy(np.float64)
    rank, step = cells["rank"].tolist(), cells["step"].astype("int64").tolist()
    alpha = np.minimum(_alpha(rank, state.get("rank")), np.where(cells["kept"], 1.0, FADED)).tolist()
    columns = {"x": step, "y": rank, "value": _as_integers(value), "alpha": alpha}
    drawn = {"sources": {"heat_data": columns}, "x": _padded_range(step), "y": _padded_range(rank)}
    if state.get("group") is not None:
        drawn["title"] = f"Time in process group {', '.join(state['group'])} by rank and step"
    return drawn | _scale(value, format_ns)


def _scale(value: Any, write: Any) -> Drawn:
    low, high = (float(value.min()), float(value.max())) if len(value) else (0.0, 1.0)
    ends = [low, high] if high > low else [low - 1, low + 1]  # all equal: the middle of the scale
    return {"colours": ends, "scale": [write(low), write(high)] if high > low else [f"all {write(low)}"]}


def _marey(frames: PageFrames, state: Mapping[str, Any]) -> Drawn:
    steps = frames.steps[frames.steps["start_ns"].notna()].sort_values(["step", "rank"]).head(MAX_CELLS)
    start, end = (steps[name].to_numpy(np.float64) for name in ("start_ns", "end_ns"))
    rank, step = steps["rank"].tolist(), steps["step"].astype("int64").tolist()
    alpha = np.minimum(_alpha(rank, state.get("rank")), np.where(steps["kept"], 1.0, FADED)).tolist()
    pale = (0.45 * np.array(alpha)).round(3).tolist()
    spans = {"y": rank, "step": step, "left": _as_integers(start), "right": _as_integers(end), "alpha": pale}
    lines: Drawn = {"xs": [], "ys": [], "alpha": []}
    for number, part in list(steps.groupby("step", sort=True))[:MAX_LINES]:
        lines["xs"].append(_as_integers(part["start_ns"].to_numpy(np.float64)))
        lines["ys"].append(part["rank"].tolist())
        lines["alpha"].append(_alpha([number], state.get("step"))[0])
    x = [float(start.min()), float(end.max())] if len(start) else [0.0, 1.0]
    return {"sources": {"marey_data": spans, "marey_lines": lines}, "x": x, "y": _padded_range(rank)}


def _talk(frames: PageFrames, state: Mapping[str, Any]) -> Drawn:
    table = frames.talk.head(MAX_TALK)
    columns = _stacked(table, TALK, ("left", "right"))
    most = columns.pop("_most")
    labels = [
        f"{operation.replace('_', ' ')[:22]}{f' · {group}' if group else ''}"
        for operation, group in zip(table["operation"], table["group"], strict=True)
    ]
    at = list(range(len(table)))
    texts = _part_texts(table, TALK)
    tips = [
        f"{label}\n{format_count(int(count))} on {_ranks(members)}\n{text}\n{CLICK}"
        for label, count, members, text in zip(labels, table["count"], table["members"], texts, strict=True)
    ]
    columns |= {"at": at, "alpha": np.where(table["chosen"], 1.0, FADED).tolist()}
    return {"sources": {"talk_data": columns}, "x": [0, ROOM * max(most, 1)], "y": _padded_range(at)[::-1],
            "tips": tips, "members": table["members"].tolist(), "groups": table["group"].tolist(),
            "labels": labels}  # fmt: skip


def _ranks(members: Sequence[int]) -> str:
    if len(members) == 1:
        return f"rank {members[0]}"
    shown = ", ".join(map(str, members[:6]))
    return f"ranks {shown}" + (f" and {len(members) - 6} more" if len(members) > 6 else "")


def _links(frames: PageFrames, state: Mapping[str, Any]) -> Drawn:
    table = frames.links
    size = table["bytes"].astype("Float64").to_numpy(np.float64, na_value=np.nan)
    value = np.where(np.isfinite(size), size, table["count"].to_numpy(np.float64))
    src, dst = table["src"].tolist(), table["dst"].tolist()
    chosen = state.get("rank")
    alpha = np.maximum(_alpha(src, chosen), _alpha(dst, chosen)).tolist() if src else []
    tips = [
        f"from rank {s} to rank {d}\n{format_count(n)} messages"
        + (f", {format_bytes(int(b))}" if np.isfinite(b) else "")
        + f"\n{format_ns(float(t))} of transfer"
        for s, d, n, b, t in zip(
            src, dst, table["count"].tolist(), size.tolist(), table["transfer_ns"].tolist(), strict=True
        )
    ]
    columns = {"x": dst, "y": src, "value": value.tolist(), "alpha": alpha}
    reach = _padded_range([*src, *dst])
    drawn = {"sources": {"links_data": columns}, "x": reach, "y": reach, "tips": tips,
             "members": [[s, d] for s, d in zip(src, dst, strict=True)]}  # fmt: skip
    sized = bool(np.isfinite(size).all()) and len(size) > 0
    return drawn | _scale(value, (lambda v: format_bytes(int(v))) if sized else (lambda v: f"{v:,.0f}"))


_DRAWN: Final = {
    "bars": lambda frames, state: _of_ranks("bars", medians(frames.steps), PARTS, state),
    "late": _late,
    "heat": _heat,
    "marey": _marey,
    "talk": _talk,
    "links": _links,
    "bubbles": _bubbles,
}
