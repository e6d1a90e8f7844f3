"""The answer to a what-if question, and how it shows itself."""

from __future__ import annotations

import functools
import html
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import pandas as pd

from ....trace import Trace, nest
from ....trace.arrays import IntArray
from ....trace.schema import TABLES, Column, Table
from ....units import format_ns, format_share
from ..path import End, critical_path
from .forward import Replay

STEPS: Final = Table(
    "what_if_steps",
    (
        Column("step", "Int32", "", "missing where a window was replayed"),
        Column("start_ns", "int64", "ns", "in the recording"),
        Column("before_ns", "int64", "ns", "length in the recording"),
        Column("after_ns", "int64", "ns", "length in the replay"),
        Column(
            "backlog_ns", "int64", "ns", "by how much further behind devices are at its end, than recorded"
        ),
    ),
)


@dataclass(frozen=True)
class WhatIf:
    """How long steps would take.

    Attributes
    ----------
    question : str
        What is otherwise, in words.
    before : int
        ns; mean length of the steps, or length of the window, in the recording.
    after : int or None
        ns; the same in the replay. None where the answer is refused, as are the next three.
    gain : int or None
        ``before - after``; negative where the steps would be longer.
    lower, upper : int or None
        The smallest and the largest gain under what the recording does not tell: lags as recorded or as
        usual, calls that wait for what held them up only or for all they could wait for, communication that
        gets shorter or is waiting for other ranks; for another number of workers, by how much the schedule
        is off.
    replay_error : float
        By how much the replay of the unchanged recording is off when each start and wait has the usual lag
        and not its own: the mean of the steps' errors, as a share of their length.
    refused : bool
        Whether there is no answer, because it could not be trusted.
    reason : str
        Why; empty for an answer.
    steps : DataFrame
        ``step start_ns before_ns after_ns backlog_ns``, a row a step: the mean of the sum of the last two is
        `after`. No rows where the answer is refused, or does not come from a replay of each step.
    """

    question: str
    before: int
    after: int | None = None
    gain: int | None = None
    lower: int | None = None
    upper: int | None = None
    replay_error: float = float("nan")
    refused: bool = True
    reason: str = ""
    steps: pd.DataFrame = field(repr=False, default_factory=STEPS.empty)
    _replay: Replay | None = field(repr=False, default=None)
    _spans: tuple[tuple[int, int, int], ...] = field(repr=False, default=())
    _end: End = field(repr=False, default="host")
    _trace: Trace | None = field(repr=False, default=None)  # what was found in it does not keep it alive

    @functools.cached_property
    def trace(self) -> Trace:
        """The slices, links and steps when they would have been; empty where the answer is refused."""
        return self._retimed[0]

    @functools.cached_property
    def critical_path(self) -> pd.DataFrame:
        """What would decide how long the steps take: the table of `critical_path`.

        `slice` are rows of the recording, times are those of the replay.

        No rows where the answer is refused.
        """
        trace, rows = self._retimed
        if self._replay is None:
            return critical_path(trace, window=(0, 0))
        steps = [number for number, _, _ in self._spans if number >= 0]
        if steps:
            table = critical_path(trace, step=steps, end=self._end)
        else:
            main = np.full(2, self._replay.edges.graph.main)
            begin, until = self._replay.now(main, np.array(self._spans[0][1:]))
            table = critical_path(trace, window=(int(begin), int(until)), end=self._end)
        old = np.append(rows, -1)[table["slice"].to_numpy(dtype=np.int64, na_value=-1)]
        return table.assign(slice=pd.arrays.IntegerArray(old, old < 0))

    @functools.cached_property
    def classes(self) -> pd.DataFrame:
        """What the critical path consists of, before and after.

        Returns
        -------
        DataFrame
            ``class before_ns after_ns``, ns a step, by `after_ns`, largest first; the columns sum to the mean
            lengths of the paths. No rows where the answer is refused.
        """
        if self._replay is None or self._trace is None:
            return pd.DataFrame({"class": pd.Series(dtype="str"), "before_ns": [], "after_ns": []})
        steps = [number for number, _, _ in self._spans if number >= 0] or None
        window = None if steps else self._spans[0][1:]
        before = critical_path(self._trace, by="class", step=steps, window=window, end=self._end)
        after = self.critical_path.groupby("class", observed=True)["dur_ns"].sum()
        table = pd.DataFrame({"before_ns": before.set_index("class")["path_ns"], "after_ns": after}).fillna(0)
        table = (table / len(self._spans)).round().astype("int64").rename_axis("class").reset_index()
        table["class"] = table["class"].astype("str")
        return table.sort_values("after_ns", ascending=False, kind="stable").reset_index(drop=True)

    @functools.cached_property
    def _retimed(self) -> tuple[Trace, IntArray]:
        if self._replay is None:
            return Trace({table.name: table.empty() for table in TABLES}), np.empty(0, np.int64)
        return retimed(self._replay)

    def __str__(self) -> str:
        if self.after is None or self.gain is None:
            return f"What if {self.question}: refused. {self.reason[:1].upper()}{self.reason[1:]}."
        unit = " a step" if any(number >= 0 for number, _, _ in self._spans) else ""
        share = self.gain / max(self.before, 1)
        text = f"What if {self.question}: {format_ns(self.before)} → {format_ns(self.after)}{unit}, "
        text += f"{format_share(abs(share))} {'less' if self.gain >= 0 else 'more'}"
        low, high = (format_ns(bound or 0) for bound in (self.lower, self.upper))
        text += f" (gain between {low} and {high})" * (low != high)
        return f"{text}; the replay is off by {format_share(self.replay_error)}."

    def __repr__(self) -> str:
        if self._replay is None:
            return str(self)
        lines = [str(self), "", f"{'critical path':16}{'before':>10}{'after':>10}"]
        for name, before, after in self.classes.head(_ROWS).values.tolist():
            lines.append(f"{name:16}{format_ns(before):>10}{format_ns(after):>10}")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        head = f"<p>{html.escape(str(self))}</p>"
        if self._replay is None:
            return f'<div class="nbp-what-if"><style>{_STYLE}</style>{head}</div>'
        table = self.classes.head(_ROWS)
        longest = max(int(table[["before_ns", "after_ns"]].to_numpy().max(initial=1)), 1)
        rows = "".join(
            f"<tr><td>{html.escape(name)}</td><td>{format_ns(before)}</td><td>{format_ns(after)}</td>"
            f'<td><i style="width:{100 * before / longest:.1f}%"></i>'
            f'<i class="after" style="width:{100 * after / longest:.1f}%"></i></td></tr>'
            for name, before, after in table.values.tolist()
        )
        titles = "<tr><th>critical path</th><th>before</th><th>after</th><th></th></tr>"
        return f'<div class="nbp-what-if"><style>{_STYLE}</style>{head}<table>{titles}{rows}</table></div>'


_ROWS: Final = 6
_STYLE: Final = """
.nbp-what-if{font:13px/1.45 system-ui,sans-serif;color:var(--jp-ui-font-color1,#1f2328);max-width:680px;
 --line:var(--jp-border-color2,#d0d7de);--soft:var(--jp-ui-font-color2,#57606a)}
@media (prefers-color-scheme:dark){body:not([data-jp-theme-light=true]) .nbp-what-if{
 color:var(--jp-ui-font-color1,#e6edf3);--line:var(--jp-border-color2,#30363d);
 --soft:var(--jp-ui-font-color2,#9da7b1)}}
.nbp-what-if table{border-collapse:collapse;width:100%;table-layout:fixed}
.nbp-what-if td,.nbp-what-if th{padding:2px 6px;text-align:right;border:0;border-bottom:1px solid var(--line);
 font-variant-numeric:tabular-nums;white-space:nowrap;font-weight:400;background:none;width:22%}
.nbp-what-if th{color:var(--soft)}.nbp-what-if tr>:first-child{text-align:left;width:34%;overflow:hidden;
 text-overflow:ellipsis}
.nbp-what-if i{display:block;height:5px;margin:1px 0;background:#8f8f8f}
.nbp-what-if i.after{background:#44aa99}
"""


def retimed(replay: Replay) -> tuple[Trace, IntArray]:
    """Return the slices of threads and the work of devices when they would have been.

    Parameters
    ----------
    replay : Replay

    Returns
    -------
    trace : Trace
        Slices, links and steps only: values over time, memory and stacks are not replayed.
    rows : ndarray of int64, shape (slices of `trace`,)
        Row of each in the recording.
    """
    graph, work = replay.edges.graph, replay.edges.work
    resources = graph.resources
    trace = resources.trace
    start, end = np.full(len(resources.ts), -1), np.full(len(resources.ts), -1)
    track = resources.track
    on_thread = np.flatnonzero(np.isin(track, replay.edges.threads))
    start[on_thread] = replay.now(track[on_thread], resources.ts[on_thread])
    end[on_thread] = replay.now(track[on_thread], resources.end[on_thread])
    start[work.rows], end[work.rows] = replay.start, replay.end
    rows = np.flatnonzero(start >= 0)
    rows = rows[np.lexsort((start[rows] - end[rows], start[rows]))]
    new_row = np.full(len(start) + 1, -1)
    new_row[rows] = np.arange(len(rows))
    slices = trace.slices.iloc[rows].reset_index(drop=True)
    ts, dur = start[rows], np.maximum(end[rows] - start[rows], 0)
    nested = nest(slices["track"].to_numpy(), ts, dur)
    parent = pd.arrays.IntegerArray(nested.parent, nested.parent < 0)
    slices = slices.assign(ts=ts, dur=dur, depth=nested.depth, parent=parent, self_ns=nested.self_ns)
    flows = trace.flows
    source, target = new_row[flows["src"].to_numpy()], new_row[flows["dst"].to_numpy()]
    both = (source >= 0) & (target >= 0)
    flows = flows[both].assign(src=source[both], dst=target[both]).reset_index(drop=True)
    steps = trace.steps
    main = np.full(len(steps), graph.main)
    begin = replay.now(main, steps["ts"].to_numpy(np.int64))
    until = replay.now(main, (steps["ts"] + steps["dur"]).to_numpy(np.int64))
    steps = steps.assign(ts=begin, dur=until - begin)
    tables = {table.name: table.empty() for table in TABLES}
    tables |= {
        "tracks": trace.tracks,
        "slices": slices,
        "flows": flows,
        "steps": steps,
        "stacks": trace.stacks,
    }
    return Trace(tables, metadata=trace.metadata), rows
