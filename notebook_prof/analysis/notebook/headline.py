"""How long *Run All* would take, what holds memory, and what is stale, in sentences that tables prove."""

from __future__ import annotations

from typing import Any, Final

import pandas as pd

from ...trace import Trace
from ...units import format_items
from ..memory.names import MAPPED, memory_names
from ..verdict.claims import (
    Sentence,
    Source,
    Verdict,
    cite,
    cite_bytes,
    cite_ns,
    cite_share,
    fill,
    say,
    short,
)
from .cells import cells

_NAMED_SHARE: Final = 0.05
_MOST: Final = 3
_MUCH: Final = 0.02


def judge_notebook(trace: Trace) -> Verdict:
    table = cells(trace)
    total = int(table["wall_ns"].sum())
    if not total:
        return Verdict("nothing-recorded", say("No cell has run since the watch began."))
    whole = Source("cells", "wall_ns")
    longest = table.sort_values("wall_ns", ascending=False, kind="stable")
    shown = longest[longest["share"] >= _NAMED_SHARE].head(_MOST)
    pieces = [_cell(row, whole) for row in (shown if len(shown) else longest.head(1)).to_dict("records")]
    sentence = say("Run All takes about ", cite_ns(total, whole), ": ", say(*pieces, between=", "), ".")
    first = longest.iloc[0]
    select = {"name": str(first["name"])}
    lines = [_again(trace, table), _memory(trace), _stale(table), _failed(table)]
    return Verdict("notebook", sentence, float(first["share"]), select, tuple(filter(None, lines)))


def _cell(row: dict[Any, Any], whole: Source) -> Sentence:
    source = Source("cells", "wall_ns", {"cell": int(row["cell"])})
    select = {"name": str(row["name"])}
    number, _, text = str(row["name"]).partition("]")
    quoted = f"{number}] `{text.strip()}` " if text.strip() else f"{number}] "
    return say(quoted, cite_share(float(row["share"]), source, whole, select))


def _again(trace: Trace, table: pd.DataFrame) -> Sentence:
    """Describe the time spent on re-runs, if it is significant."""
    every = cells(trace, runs=True)
    spent, once = int(every["wall_ns"].sum()), int(table["wall_ns"].sum())
    if len(every) == len(table) or spent - once < _MUCH * spent:
        return say()
    source = Source("cells", "wall_ns", {}, {"runs": True})
    runs = Source("cells", "cell", {}, {"runs": True}, "count")
    count = cite(format_items(len(every), "run"), len(every), runs)
    most = every.groupby("cell")["wall_ns"].agg(["sum", "size"])
    most = most[most["size"] > 1].sort_values("sum")
    cell, row = int(most.index[-1]), most.iloc[-1]
    name = str(table.loc[table["cell"] == cell, "name"].iloc[0])
    own = Source("cells", "wall_ns", {"cell": cell}, {"runs": True})
    times = cite(f"{int(row['size'])} ×", int(row["size"]), Source("cells", "runs", {"cell": cell}))
    text = "The session ran cells for {} in {}; longest of the repeated: {} {}, {}."
    return fill(text, cite_ns(spent, source), count, short(name), times, cite_ns(int(row["sum"]), own))


def _memory(trace: Trace) -> Sentence:
    """Describe what holds most of the memory, and which cells made and last used it."""
    names = memory_names(trace)
    host = names[(names["device"] == -1) & (names["kind"] != MAPPED)]
    used = int(host["bytes"].sum())
    named = host[host["name"].notna()]
    large = named[named["bytes"] >= _NAMED_SHARE * used].head(_MOST)
    if not len(large) or used <= 0:
        return say()
    held = int(large["bytes"].sum())
    kinds = tuple(host["kind"].unique().tolist())
    of = Source("memory_names", "bytes", {"device": -1, "kind": kinds})
    where = {"device": -1, "name": tuple(large["name"].tolist())}
    words = [_holder(row) for row in large.to_dict("records")]
    named_bytes = cite_bytes(held, Source("memory_names", "bytes", where))
    return fill("{} of {} are held by {}.", named_bytes, cite_bytes(used, of), say(*words, between=", "))


def _holder(row: dict[Any, Any]) -> Sentence:
    parts = []
    for word, column in (("made in ", "made_in"), ("last used in ", "used_in")):
        if isinstance(row[column], str):
            source = Source("memory_names", column, {"name": row["name"], "device": -1})
            parts.append(say(word, cite(row[column], row[column], source)))
    name = say(f"`{short(row['name'])}`")
    return say(name, " (", say(*parts, between=", "), ")") if parts else name


def _stale(table: pd.DataFrame) -> Sentence:
    rows = table[table["stale"] != ""]
    if not len(rows):
        return say()
    first = rows.iloc[0]
    where = {"cell": tuple(rows["cell"].tolist())}
    count = cite(format_items(len(rows), "result"), len(rows), Source("cells", "cell", where, reduce="count"))
    why = Source("cells", "stale", {"cell": int(first["cell"])})
    verb, reason = "is" if len(rows) == 1 else "are", str(first["stale"])
    return say(count, f" {verb} stale, such as In[{first['number']}]: ", cite(reason, reason, why), ".")


def _failed(table: pd.DataFrame) -> Sentence:
    rows = table[table["error"] != ""]
    if not len(rows):
        return say()
    row = rows.iloc[-1]
    error = Source("cells", "error", {"cell": int(row["cell"])})
    wall = Source("cells", "wall_ns", {"cell": int(row["cell"])})
    name, took = str(row["error"]), cite_ns(int(row["wall_ns"]), wall)
    return fill("In[{}] ended with {} after {}.", row["number"], cite(name, name, error), took)
