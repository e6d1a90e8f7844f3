"""A comparison in sentences, and two sessions of a notebook compared cell by cell."""

from __future__ import annotations

import math
from collections.abc import Mapping
from difflib import SequenceMatcher
from typing import Any, Final

import numpy as np
import pandas as pd

from ..analysis.notebook.cells import cells
from ..analysis.notebook.recorded import cell_runs
from ..statistics import LEAST
from ..trace import Trace
from ..trace.schema import Table
from ..units import cut, format_items, format_ns
from .parts import IDLE, MISSING, SMALLER
from .tables import ComparedTables

# A comparison as text, for terminals.

_ROWS = 8


def comparison_text(c: ComparedTables, rows: int = _ROWS) -> str:
    """Return the verdict, and the phases, lines, operators and kernels that differ most, up to `rows` of
    each.
    """
    parts = [" ".join(sentences(c))]
    tables = {"Phases": c.phases, "Lines": c.lines, "Operators": c.operators, "Kernels": c.kernels}
    for title, table in tables.items():
        if title == "Lines" and not (table["file"] != "").any():
            continue
        if len(table):
            parts.append("\n".join([f"\n{title}", *_rows(c, table, rows)]))
    return "\n".join(parts)


def _rows(c: ComparedTables, table: pd.DataFrame, most: int) -> list[str]:
    lines = [f"{c.delta_words:>12}  {'a':>9}  {'b':>9}  {'':10}"]
    for row in table.head(most).to_dict("records"):
        sure = "  " if row["significant"] else "≈ "
        change = "" if row["change"] == "same" else str(row["change"]).replace("-", " ")
        times = f"{format_ns(float(row['a_ns'])):>9}  {format_ns(float(row['b_ns'])):>9}"
        lines.append(
            f"{sure + signed_ns(float(row['delta_ns'])):>12}  {times}  {change:10} {label(row, c.labels)}"
        )
    if len(others := table.iloc[most:]):
        times = f"{format_ns(float(others['a_ns'].sum())):>9}  {format_ns(float(others['b_ns'].sum())):>9}"
        lines.append(f"{signed_ns(float(others['delta_ns'].sum())):>12}  {times}  {'':10} {len(others)} more")
    return lines


def label(row: Mapping[str, Any], labels: Mapping[str, str]) -> str:
    """Return the name of a row, with its phase if it has one."""
    if "name" not in row and "phase" in row:
        return str(row["phase"])
    phase = row.get("phase", MISSING["phase"])
    text = name_of(row, labels)
    return text if phase == MISSING["phase"] else f"{phase}: {text}"


_FEW_MATCHED: Final = 0.1
_MOSTLY_STALLS: Final = 0.2
_SHOWN: Final = 2
_WIDEST: Final = 60
_WORTH_SAYING: Final = 0.05
"""Relative change above which an uncertain difference is mentioned."""


def sentences(c: ComparedTables) -> list[str]:
    """Return the effect of the change, its evidence, its place, and other differences."""
    return [text for text in (_headline(c), _basis(c), _where(c), _stalls(c), _else(c), _work(c)) if text]


HUNDREDFOLD: Final = 100.0


def signed_percent(change: float) -> str:
    """Write a relative change; from a factor of a hundred, only a bound."""
    if change > HUNDREDFOLD:
        return f"over {signed_percent(HUNDREDFOLD)}"
    digits = 1 if abs(change) < 1 else 0
    return f"{'−' if change < 0 else '+'}{abs(100 * change):,.{digits}f} %"


def signed_ns(delta: float) -> str:
    """Write a difference of times with its sign.

    Examples
    --------
    >>> signed_ns(1_200_000), signed_ns(-3_000)
    ('+1.2 ms', '−3 µs')
    """
    return ("−" if delta < 0 else "+") + format_ns(abs(delta))


def interval_text(c: ComparedTables) -> str:
    """Write the interval of a comparison; empty if unknown."""
    low, high = c.interval
    return "" if math.isnan(low) else f"{signed_percent(low)} … {signed_percent(high)}"


def name_of(row: Mapping[str, Any], labels: Mapping[str, str]) -> str:
    """Write the name of an attribution's row, with names as in `Comparison.labels`."""
    if "text" in row:
        text = str(row["text"])
        if not row["file"]:
            return text
        short = cut(text, _WIDEST)
        where = row["a_line"] if pd.isna(row["b_line"]) else row["b_line"]
        file = "" if row["file"] == "cell" else f" of {row['file']}"
        return f"line {where}{file}" + (f" `{short}`" if short else "")
    name = str(row["name"])
    return labels.get(name, name) or "other"


def used_times(c: ComparedTables, side: int) -> pd.Series[int]:
    """Return the durations of a side's counted steps, in ns."""
    table = c.steps
    return table.loc[(table["side"] == c.names[side]) & table["used"], "dur_ns"]


def _headline(c: ComparedTables) -> str:
    a, b = c.names
    if math.isnan(c.interval[0]):
        return _cannot_tell(c)
    medians = [format_ns(float(used_times(c, side).median())) for side in (0, 1)]
    median = f"the median step takes {medians[0]} in {a} and {medians[1]} in {b}"
    if c.starved:
        return (
            f"≈ No difference between {a} and {b} can be shown, the machine was too busy: {_core(c)}. "
            f"It lies in {interval_text(c)}; {median}."
        )
    word = "faster" if c.change < 0 else "slower"
    amount = signed_percent(abs(c.change)).replace("+", "")
    if not c.significant and abs(c.change) >= _WORTH_SAYING:
        return f"≈ {b} is {amount} {word}, but not for certain ({interval_text(c)}): {median}."
    if not c.significant:
        return f"≈ No difference between {a} and {b} is shown: it lies in {interval_text(c)}; {median}."
    return f"{b} is {amount} {word} ({interval_text(c)}): {median}."


def _cannot_tell(c: ComparedTables) -> str:
    a, b = c.names
    whole = c.whole
    if all(whole):
        why = f"One recording of each, without steps, cannot show whether {b} is faster."
    else:
        counts = [0 if whole[side] else len(used_times(c, side)) for side in (0, 1)]
        why = (
            f"Whether {b} is faster cannot be said: {format_items(counts[0], 'step')} of {a} and {counts[1]} "
            f"of {b} count, and at least {LEAST} of each are needed."
        )
    what = ["recording" if one else "mean step" for one in whole]
    took = [format_ns(int(c.phases[column].sum())) for column in ("a_ns", "b_ns")]
    note = (
        f" Weights of {' and '.join(c.without_unit)} have no unit: 1 is shown as 1 ns."
        if c.without_unit
        else ""
    )
    return f"{why} The {what[0]} of {a} takes {took[0]}, and the {what[1]} of {b} {took[1]}.{note}"


def undecided(c: ComparedTables) -> str:
    """Return why a change can neither be shown nor ruled out; empty if the interval decides."""
    if math.isnan(c.interval[0]):
        return "too few steps to tell a change"
    return f"the machine was too busy: {_core(c)}" if c.starved else ""


def _core(c: ComparedTables) -> str:
    """Return the share of the threads' ready time with a core."""
    return f"a thread that could run had a core for {100 * (c.core_share or 0):.0f} % of the time"


def _basis(c: ComparedTables) -> str:
    if math.isnan(c.interval[0]):
        return ""
    if c.by_runs:
        how = "pairs of runs" if c.paired else f"and {c.runs[1]} runs"
        return f"This is based on {c.runs[0]} {how}."
    counts = [len(used_times(c, side)) for side in (0, 1)]
    rests = (
        f"The change is the median over all pairs of {counts[0]} and {counts[1]} steps; since "
        f"steps do not show the noise between runs, the interval is {c.shift.factor:.3g} times as wide as "
        f"theirs ({'assumed' if c.noise is None else 'as noise= says'})"
    )
    if c.significant:
        return f"{rests}."
    return f"{rests}: several alternating runs of each show more, as %%profile_ab records them."


def believed_changes(c: ComparedTables) -> pd.DataFrame:
    """Return the significant statements, or else operators, whose change has the sign of the total change."""
    # Runs with totals only have lines instead, each with its own time.
    lines = (table for table in (c.statements, c.lines) if (table["file"] != "").any())
    return _believed(c, next(lines, c.operators))


def _believed(c: ComparedTables, table: pd.DataFrame) -> pd.DataFrame:
    sign = 1 if c.delta_ns > 0 else -1
    named = (table["file"] != "") if "file" in table else ~table["name"].isin([SMALLER, *IDLE.values()])
    return table[table["significant"] & named & (table["delta_ns"] * sign > 0)]


def _where(c: ComparedTables) -> str:
    believed = believed_changes(c)
    if not len(believed) or c.starved:
        return ""
    words = {"new": "new, ", "gone": "gone, "}
    parts = [
        f"{name_of(row, c.labels)} ({words.get(str(row['change']), '')}{signed_ns(float(row['delta_ns']))})"
        for row in believed.head(_SHOWN).to_dict("records")
    ]
    left = c.delta_ns - int(believed["delta_ns"].head(_SHOWN).sum())
    listed, inside = ", ".join(parts), _inside(c, believed.head(_SHOWN))
    what = "recording" if all(c.whole) else "mean step"
    return f"The {what} changes by {signed_ns(c.delta_ns)}: {listed}, all else {signed_ns(left)}{inside}."


def _inside(c: ComparedTables, shown: pd.DataFrame) -> str:
    """Name the line that changes most by its own time, unless it is among the statements shown."""
    own = _believed(c, c.lines)
    if "text" not in shown or not len(c.statements) or not len(own):
        return ""
    of_line = ["file", "a_line", "b_line"]
    if (shown[of_line].fillna(-1) == own[of_line].iloc[0].fillna(-1)).all(axis=1).any():
        return ""
    row = own.iloc[0].to_dict()
    return f"; by its own time the most in {name_of(row, c.labels)} ({signed_ns(float(row['delta_ns']))})"


def _stalls(c: ComparedTables) -> str:
    table = c.stalls.set_index("part")
    slow = table.loc["slow steps"]
    if abs(float(slow["delta_ns"])) <= _MOSTLY_STALLS * abs(float(table["delta_ns"].sum())):
        return ""
    a, b = int(slow["a_steps"]), int(slow["b_steps"])
    counts = f"{format_items(a, 'step')} of {c.names[0]} and {b} of {c.names[1]}"
    return f"Slow steps ({counts}) are {signed_ns(float(slow['delta_ns']))} of the means' difference."


def _else(c: ComparedTables) -> str:
    text = conditions_text(c)
    return f"The recordings differ in more than the code: {text}." if text else ""


def conditions_text(c: ComparedTables) -> str:
    rows = zip(*(c.conditions[name] for name in ("what", "a", "b")), strict=True)
    return ", ".join(f"{what} ({a or 'none'} → {b or 'none'})" for what, a, b in rows)


def _work(c: ComparedTables) -> str:
    if c.matched_share >= _FEW_MATCHED:
        return ""
    return (
        f"Only {100 * c.matched_share:.0f} % of their time is in operators and lines that both have: the "
        "times are compared, but whether both do the same work is unknown."
    )


def moved(c: ComparedTables) -> list[str]:
    """Return the rows of a comparison that moved, the largest first, each with its table."""
    # Recorded source lines first, then names on the host and on devices. Rows within the noise do not count;
    # other rows explain `idle` and unowned time.
    rows: list[tuple[int, str]] = []
    for name in ("lines", "operators", "kernels"):
        table: pd.DataFrame = getattr(c, name)
        table = table[table["significant"]]
        if name == "lines":
            table = table[table["file"] != ""]
        else:
            table = table[~table["name"].isin(list(IDLE.values()))]
        for row in table.head(_SHOWN).to_dict("records"):
            interval = ""
            if not math.isnan(row["low_ns"]):
                interval = f" ({signed_ns(row['low_ns'])} … {signed_ns(row['high_ns'])})"
            what = name_of({str(key): value for key, value in row.items()}, c.labels)
            rows.append(
                (
                    int(row["delta_ns"]),
                    f"{row['change']}: {what} {signed_ns(row['delta_ns'])}{interval} (.{name})",
                )
            )
    return [text for _, text in sorted(rows, key=lambda row: -abs(row[0]))[: 2 * _SHOWN]]


COMPARED: Final = Table.of(
    "compared_cells",
    "name:str status:str a_ns:int64 b_ns:int64 delta_ns:int64 a_kept_bytes:int64 b_kept_bytes:int64",
)
_ALIKE: Final = 0.6


def compare_cells(a: Trace, b: Trace) -> pd.DataFrame:
    """Compare the cells of two sessions.

    Parameters
    ----------
    a, b : Trace
        Sessions of a notebook.

    Returns
    -------
    DataFrame
        One row per cell of either session, with the largest differences first: ``name status a_ns b_ns
        delta_ns a_kept_bytes b_kept_bytes``. ``delta_ns`` sums to the difference of the sessions' *Run All*.
        Cells are matched by their text, even if they moved, then by their id, then by similar text.
    """
    sides = [_side(trace) for trace in (a, b)]
    rows = []
    for one, other in _matched(*sides):
        shown: dict[str, Any] = other or one or {}
        a_ns, b_ns = (0 if side is None else int(side["wall_ns"]) for side in (one, other))
        if one is None or other is None:
            status = "new" if one is None else "gone"
        else:
            status = "same" if one["source"] == other["source"] else "edited"
        kept = [0 if side is None else int(side["kept_bytes"]) for side in (one, other)]
        rows.append(
            {"name": shown["name"], "status": status, "a_ns": a_ns, "b_ns": b_ns, "delta_ns": b_ns - a_ns,
             "a_kept_bytes": kept[0], "b_kept_bytes": kept[1]}
        )  # fmt: skip
    table = COMPARED.of_rows(rows)
    order = np.argsort(-table["delta_ns"].abs().to_numpy(), kind="stable")
    return table.iloc[order].reset_index(drop=True)


def matched_sources(a: Trace, b: Trace) -> list[tuple[str, str, str]]:
    """Return the name in b and both texts of each cell that both sessions have."""
    pairs = _matched(_side(a), _side(b))
    return [(other["name"], one["source"], other["source"]) for one, other in pairs if one and other]


def cells_text(a: Trace, b: Trace, rows: int) -> str:
    """Return the comparison as text: the sums, and the cells that changed most."""
    table = compare_cells(a, b)
    before, after = int(table["a_ns"].sum()), int(table["b_ns"].sum())
    lines = [f"Run All: {format_ns(before)} → {format_ns(after)} ({signed_ns(after - before)})"]
    for row in table.head(rows).to_dict("records"):
        note = "" if row["status"] == "same" else f"  ({row['status']})"
        times = f"{format_ns(row['a_ns'])} → {format_ns(row['b_ns'])}"
        lines.append(f"  {signed_ns(row['delta_ns']):>10}  {times}  {row['name']}{note}")
    return "\n".join(lines)


def _side(trace: Trace) -> list[dict[str, Any]]:
    """Return the cells of a session with their texts."""
    texts = cell_runs(trace).drop_duplicates("cell", keep="last").set_index("cell")["source"]
    table = cells(trace)
    source = table["cell"].map(texts).astype("str").str.strip()
    made: list[dict[str, Any]] = table.assign(source=source).to_dict("records")
    return made


def _matched(
    a: list[dict[str, Any]], b: list[dict[str, Any]]
) -> list[tuple[dict[str, Any] | None, dict[str, Any] | None]]:
    pairs: list[tuple[dict[str, Any] | None, dict[str, Any] | None]] = []
    left, right = list(a), list(b)

    def take(fits: Any) -> None:
        for one in list(left):
            if (other := next((row for row in right if fits(one, row)), None)) is not None:
                pairs.append((one, other))
                left.remove(one)
                right.remove(other)

    take(lambda one, other: one["source"] == other["source"])
    take(lambda one, other: one["cell_id"] and one["cell_id"] == other["cell_id"])
    take(lambda one, other: SequenceMatcher(None, one["source"], other["source"]).ratio() >= _ALIKE)
    return [*pairs, *((one, None) for one in left), *((None, other) for other in right)]
