"""What bounds a run, in one sentence proved by public tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from ...trace import Trace
from ...trace.source_lines import text_lines
from ...units import format_items
from ..notebook.recorded import is_notebook
from ..scope import WindowLike, sharing
from ..time.account import ACCOUNT
from ..time.operators import operators
from .claims import Source, Verdict, cite_ns, cite_share, fill, say, short
from .inputs import MOST, VerdictInputs, gather
from .lines import supporting_lines

# Of a recording with durations but no timeline, only the largest part is named.


def _judge_sums(facts: VerdictInputs) -> Verdict | None:
    """Name the largest part of all durations; None if all are zero. What bounds the run is unknown."""
    table = operators(facts.trace)
    total = int(table["self_ns"].sum())
    if not total:
        return None
    row = table.iloc[int(table["self_ns"].to_numpy().argmax())]
    name, spent = str(row["name"]), int(row["self_ns"])
    select = {"name": name}
    source, whole = Source("operators", "self_ns", select), Source("operators", "self_ns")
    share = cite_share(spent / total, source, whole, select)
    text = "There are durations, but no timeline: {} takes {} of their sum ({} of {})."
    sentence = fill(text, short(name), share, cite_ns(spent, source, select), cite_ns(total, whole))
    return Verdict("mixed", sentence, share.value, select)


TRIFLE_NS = 5_000_000
"""A cell shorter than this has nothing worth reporting, unless it has steps."""
_OURS = "profiler"
"""Kind, in a cell's account, of the time that starts and stops the recording."""
_JUMP_SHARE = 0.05
"""Share of the recording's length: if the clock was set by at least this much, nothing can be judged."""
_INSTANT_NS = 1
"""Duration of slices made from a memory snapshot without history."""


@sharing
def verdict(trace: Trace, *, window: WindowLike = None) -> Verdict:
    """Determine what bounds the run.

    Parameters
    ----------
    window : (int, int), optional
        Half-open, in ns: judge only this part.

    Returns
    -------
    Verdict
        Never None; ``nothing-recorded`` for a trace that is empty or contains only instants.

    Notes
    -----
    Shares are of the summed steps; without steps, of the cell (see `account`) or, in files, of the time from
    the first work to the last. The sentence says which. Nothing is judged if the system's clock was set in
    the meantime by a twentieth of the recording or more (``metadata["clock_jump_ns"]``). For durations
    without a timeline (``metadata["time_line"]`` is False) only the largest part is named. In this order:

    1. A recorded cell whose own code takes less than 5 ms has nothing to report.
    2. If code outside of steps takes more than half of a cell, not counting our own start and stop, or there
    are no steps: *display-bound* if the display of the result, or of figures, takes half of the cell;
    otherwise the user's longest line, followed inwards as long as one line takes 70 % of its caller.
    *one-time* if ``torch.compile`` takes half of that line; *wait-bound* if the cell's thread neither ran nor
    waited for a core for half of it, or the names of its callees say that they wait; *import-bound* for an
    import; *library-bound* if the longest function below it belongs to an installed library; *compute-bound*
    if operators of a framework take most of it; else *python-bound*. *mixed* if no line takes half.
    3. *one-time* if more than half of the steps, or of the time of a file, is set-up: see `one_time`; from 10
    % it follows the verdict. *communication-bound*, *input-bound*: at least 25 % of the steps is in that
    phase; the larger one wins. Without device work it comes second if another phase of the steps takes
    longer, since that phase bounds them.
    4. With device work: with the busiest device busy 70 % of the time, *launch-bound* if more than half of
       the critical path is still the host; else *copy-bound* if kernels are less than half of its busy time,
       else *compute-bound*. Below 70 %: *sync-bound* if the thread waits for devices at least 25 % of the
       time (see `host_waits`); else the cause of more than half of the device's idle time (see
       `idle_causes`), *launch-bound* only if that is the host; else *mixed*, with the host's share of the
       critical path if that is more than half. The path is used for recordings of PyTorch and of cells, up to
       two million slices, with 90 % of the device work linked to its launch and slices recorded for half of
       the path.
    5. Without: *python-bound* if Python frames take half of the steps, with the line; *overhead-bound* if at
       least half is between operators or in operators of less than 10 µs; else *compute-bound*, or *mixed*.

    A further line gives the classes of the critical path, also without device work, and the class that would
    be largest without the first (see `critical_path_next`; up to 200,000 slices, except for communication).

    If recording made steps more than 1.2 times as long, the text begins with that, and the verdict is neither
    launch-bound nor overhead-bound.

    Examples
    --------
    >>> from notebook_prof import TraceBuilder
    >>> b = TraceBuilder()
    >>> row = dict(track=b.track("main"), phase=["data", "forward"], name=["next", "mm"])
    >>> _ = b.slices(ts=[0, 70_000], dur=[70_000, 30_000], **row)
    >>> b.steps(step=0, ts=0, dur=100_000, source="loop")
    >>> verdict(b.seal()).sentence
    'Input-bound: 70.0 % of the steps waits for data (70 µs of 100 µs).'
    """
    if window is None and is_notebook(trace):
        from ..notebook.headline import judge_notebook

        return judge_notebook(trace)
    if window is None and (trifle := _judge_trifle(trace)) is not None:
        return trifle
    facts = gather(trace, window)
    if (alone := _judge_unreliable(facts)) is not None:
        return alone
    return replace(_judge(facts), further=tuple(supporting_lines(facts)))


def _judge_unreliable(facts: VerdictInputs) -> Verdict | None:
    """Judge a recording that has no timeline or whose clock jumped; None for all others."""
    jump_ns, span_ns = facts.trace.metadata.get("clock_jump_ns", 0), facts.trace.span.dur
    if isinstance(jump_ns, int) and abs(jump_ns) >= _JUMP_SHARE * span_ns > 0:
        what = "The system's clock was set while this was recorded, so its times are wrong: record again."
        return Verdict("clock-jumped", say(what))
    if facts.total_ns <= _INSTANT_NS:
        return _nothing(facts) if span_ns <= _INSTANT_NS else None
    return _judge_sums(facts) if facts.trace.metadata.get("time_line") is False else None


def _judge(facts: VerdictInputs) -> Verdict:
    if facts.total_ns <= _INSTANT_NS:
        return _nothing(facts)
    if not _steps_matter(facts):
        from .code import judge_code

        if (judged := judge_code(facts)) is not None:
            return judged
    from .steps import judge_steps

    return judge_steps(facts)


def _steps_matter(facts: VerdictInputs) -> bool:
    """Return whether there are steps and, in a cell, they take at least half of the user's code."""
    if not len(facts.steps) or not facts.is_cell:
        return bool(len(facts.steps))
    dur = facts.account.groupby("kind", observed=True)["dur"].sum()
    stepping = dur.reindex(["steps", "outside-window"]).sum()
    return bool(stepping >= MOST * (dur.sum() - dur.get("profiler", 0)))


_OF_RECORDINGS: Final = frozenset([
    "account", "child_memory", "cpu", "line_runs", "statements", "memory_levels", "memory_names",
    "memory_walks",
])  # fmt: skip
"""Tables that every recording has, even an empty one."""


def _nothing(facts: VerdictInputs) -> Verdict:
    report = facts.trace.report
    tables = sorted(set(facts.trace.metadata.get("tables") or {}) - _OF_RECORDINGS)
    values, is_file = len(facts.trace.counters), "file" in facts.trace.metadata
    what = "Nothing was recorded: the trace has no slices."
    if tables:
        what = f"There is no timeline, only tables: {', '.join(tables)}."
    elif values and is_file:
        what = f"There are no slices, only counters: {format_items(values, 'value')}."
    elif is_file and any(one.severity != "info" for one in report):
        what = "Nothing in the file could be used: trace.report says why."
    elif is_file and len(facts.trace.slices):
        what = f"Nothing took time: {format_items(len(facts.trace.slices), 'event')} of no length."
    elif "steps-not-reached" in report:
        what = "Nothing to report: the requested steps did not run."
    elif "steps_requested" in facts.trace.metadata and all(one.severity == "info" for one in report):
        what = "Nothing to report: no call was recorded."
    return Verdict("nothing-recorded", say(what))


def _judge_trifle(trace: Trace) -> Verdict | None:
    """Judge a cell whose own code is too short to report on; None for all others."""
    stretches = (trace.metadata.get("tables") or {}).get(ACCOUNT)
    if stretches is None or len(trace.steps) or trace.metadata.get("clock_jump_ns"):
        return None
    own = stretches[stretches["kind"] != _OURS]
    took = int(own["dur"].sum())
    if not 0 < took < TRIFLE_NS:
        return None
    source, raised = (trace.metadata.get(key) for key in ("cell_source", "raised"))
    if isinstance(source, str) and all(
        not line.strip() or line.lstrip().startswith(("#", "%%")) for line in text_lines(source)
    ):
        return Verdict("nothing-recorded", say("The cell is empty."))
    cited = cite_ns(took, Source("account", "dur", {"kind": tuple(own["kind"].unique())}))
    what = "the cell" if len(own) == len(stretches) else "the cell's own code"
    end = f"; it ended with {raised.get('error')}" if isinstance(raised, Mapping) else ""
    return Verdict("nothing-recorded", fill("Nothing to report: {} took {}{}.", what, cited, end))
