"""The linked page of a comparison: its content, answers to its questions, and one file without a kernel.

Questions about a timeline are passed on to its side.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pandas as pd

from ... import analysis
from ...analysis.source.stack_nodes import working_threads
from ...errors import NotebookProfError
from ...service.executor import LatestTaskExecutor, patched
from ...service.packing import Answer
from ...service.palette import PHASES, name_styles
from ...trace import Trace
from ...units import format_count, format_ns
from ...views.bundle import VERSION, Style, stylesheet
from ...views.dashboard import FIGURES, dashboard_document, dashboard_settings
from ...views.page_queries import PageQueries
from ...views.report.html_file import json_text
from ...views.report.report import bytes_left, report_file, trace_blocks
from ...views.report.tabs import answer_text
from ...views.tab_answers import packed
from ...views.tabs.base import Panel, Part, Table, pictures
from ..parts import IDLE, MISSING, SMALLER, name_key
from ..selected import SIDES
from ..tables import ComparedTables
from ..verdict import sentences
from .static_html import fragment

if TYPE_CHECKING:
    from ...views.figures import Drawn
    from ..comparison import AlignedStep, Comparison

# A differential flame graph: the stacks of b, with the time of the same stack in a.

_MOST: Final = 2000
_LEVELS: Final = 40


def stacks_of_both(sides: Comparison) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the stacks of both recordings like `analysis.flame` without threads, in ns of a mean step."""
    # ``path`` is the same number on both sides for the same names from the root (as matched by the
    # comparison); ``other`` is the other side's time for that path, divided among its nodes by their totals;
    # NaN if the other side lacks the path.
    tables = [_stacks(sides, number) for number in (0, 1)]
    _number_paths(tables)
    sums = [table.groupby("path")["total"].sum() for table in tables]
    for number, table in enumerate(tables):
        share = table["total"] / table["path"].map(sums[number])
        table["other"] = table["path"].map(sums[1 - number]) * share
    return tables[0], tables[1]


def flame_picture(sides: Comparison) -> Drawn | None:
    """Draw the stacks of b in colours that show the difference from a; None without stacks of b."""
    from ...views.figures import flame_difference
    from ...views.figures.drawn import patches

    a, b = stacks_of_both(sides)
    if not len(b) or not b["total"].any():
        return None
    shown = b[(b["total"] > 0) & (b["depth"] < _LEVELS)].nlargest(_MOST, "total").sort_index()
    name_a, name_b = sides.names
    step = "a mean step of the run shown" if max(sides.runs) > 1 else "a mean step"
    title = f"Stacks of {name_b}, as wide as in {step}; colours say how they differ from {name_a}"
    left = int((b["total"] > 0).sum()) - len(shown)
    title += f" · without {format_count(left)} narrow ones" if left else ""
    gone = a[a["other"].isna()]
    gone = gone[~gone["parent"].isin(gone.index)]
    if len(gone):
        title += f" · gone: {format_ns(float(gone['total'].sum()))}"
    keys = [name_key(name) for name in shown["name"]]
    table = shown.assign(before=shown["other"], select=patches("name", keys))
    styles = name_styles(sides.shown[1].trace)
    labels = [styles.label(str(name)) for name in shown["name"]]
    return flame_difference(table, title, labels)


def _stacks(sides: Comparison, side: int) -> pd.DataFrame:
    trace: Trace = sides.shown[side].trace
    steps = sides.counted_steps(side)
    threads = working_threads(trace)
    table = analysis.flame(trace, step=steps or None, track=threads, by_thread=False)
    count = max(len(steps), 1)
    table["start"], table["total"] = (table[name].to_numpy(np.float64) / count for name in ("start", "total"))
    return table


def _number_paths(tables: list[pd.DataFrame]) -> None:
    """Add ``path``: level by level, by the number of the parent's path and the name."""
    keys = {name: name_key(name) for table in tables for name in table["name"].unique()}
    paths = [np.full(len(table) + 1, -1, np.int64) for table in tables]  # the last entry is for roots
    after = 0
    for depth in range(max((int(table["depth"].max()) + 1 for table in tables if len(table)), default=0)):
        rows = [np.flatnonzero(table["depth"].to_numpy() == depth) for table in tables]
        above, key = [], []
        for table, numbers, at in zip(tables, paths, rows, strict=True):
            above.append(numbers[table["parent"].iloc[at].to_numpy(np.int64, na_value=-1)])
            key.append(table["name"].iloc[at].map(keys))
        level = pd.DataFrame({"above": np.concatenate(above), "key": np.concatenate(key)})
        number = level.groupby(["above", "key"], sort=False).ngroup().to_numpy(np.int64) + after
        paths[0][rows[0]], paths[1][rows[1]] = number[: len(rows[0])], number[len(rows[0]) :]
        after = int(number.max(initial=after - 1)) + 1
    for table, numbers in zip(tables, paths, strict=True):
        table["path"] = numbers[:-1]


MOST_ROWS: Final = 1000
"""Maximum number of rows of a table in the page; Python has the rest."""
_MOST_LINES: Final = 3000
_UNITS: Final = {
    "delta_ns": "delta",
    "a_ns": "ns",
    "b_ns": "ns",
    "change": "text",
    "name": "name",
    "phase": "text",
}
_NOBODY: Final = {*IDLE.values(), SMALLER}


def compared(c: Comparison) -> Answer:
    """Return all content of a comparison for the page at once."""
    # ``parts`` are those of a tab (`notebook_prof.views.tab_answers.panel`); ``phases`` has ``phase a_ns b_ns
    # delta_ns sure colour``, ``source`` has ``change a_line b_line text delta_ns sure line`` for each line of
    # the cell.
    parts: list[Part] = [_names(c, c.operators, "Operators", "c.operators")]
    if len(c.kernels):
        parts.append(_names(c, c.kernels, "Kernels", "c.kernels"))
    lines = _lines(c)
    if len(lines.frame):
        parts.append(lines)
    if len(c.conditions):
        heads = dict(zip(("a", "b"), c.names, strict=True))
        title = "The recordings differ in more than the code"
        parts.append(Table(c.conditions, heads=heads, title=title, call="c.conditions"))
    parts += pictures(flame_picture(c))
    answer = packed("compared", Panel("Compared", tuple(parts)), name_styles(c.shown[1].trace), MOST_ROWS)
    answer.content |= {"phases": _phases(c), "source": _source(c)}
    return answer


def _names(c: ComparedTables, table: pd.DataFrame, title: str, call: str) -> Table:
    columns = [name for name in ("delta_ns", "a_ns", "b_ns", "change", "phase", "name") if name in table]
    select: list[dict[str, Any] | None] = []
    for row in table.head(MOST_ROWS).to_dict("records"):
        phase = row.get("phase", MISSING["phase"])
        kept = None if phase == MISSING["phase"] else [phase]
        patch = {"name": [row["name"]], "phase": kept, "line": None}
        select.append(None if row["name"] in _NOBODY or not row["name"] else patch)
    return Table(_worded(table)[columns], _UNITS, _heads(c), select, title, call)


def _lines(c: ComparedTables) -> Table:
    """Return lines of files: those outside the difference of the cell's source."""
    labels = c.attribution("line")["line"]
    own = ~c.lines["file"].isin(("", "cell")) if len(c.source) else c.lines["file"] != ""
    table = _worded(c.lines[own]).assign(at=labels[own])[["delta_ns", "a_ns", "b_ns", "change", "at", "text"]]
    select = [{"line": [label], "name": None, "phase": None} for label in labels[own].head(MOST_ROWS)]
    heads = {**_heads(c), "at": "line"}
    return Table(table, {**_UNITS, "text": "code"}, heads, select, "Lines of files", "c.lines")


def _worded(table: pd.DataFrame) -> pd.DataFrame:
    """Write the change of each row, or that it is within the noise."""
    return table.assign(change=table["change"].where(table["change"] != "same", "≈").str.replace("-", " "))


def _heads(c: ComparedTables) -> dict[str, str]:
    return {"delta_ns": c.delta_words, "a_ns": c.names[0], "b_ns": c.names[1]}


def _phases(c: ComparedTables) -> list[dict[str, Any]]:
    table = c.phases.sort_values("a_ns", ascending=False, kind="stable")
    return [
        {
            "phase": str(row["phase"]),
            **{name: float(row[name]) for name in ("a_ns", "b_ns", "delta_ns")},
            "sure": bool(row["significant"]),
            "colour": PHASES.get(str(row["phase"]), "#888888"),
        }
        for row in table.to_dict("records")
    ]


def _source(c: ComparedTables) -> list[dict[str, Any]]:
    """Return the lines of the cell in the order of b, gone lines at their old place."""
    cell = c.source[c.source["file"] == "cell"].head(_MOST_LINES)
    labels = c.attribution("line")["line"]
    spent = dict(zip(labels, zip(c.lines["delta_ns"], c.lines["significant"], strict=True), strict=True))
    rows = []
    for row in cell.to_dict("records"):
        a, b = (None if pd.isna(row[key]) else int(row[key]) for key in ("a_line", "b_line"))
        line = f"cell:{b} of b" if a is None else f"cell:{a}"
        delta, sure = spent.get(line, (None, False))
        lines = {"change": row["change"], "a_line": a, "b_line": b, "text": row["b_text"] or row["a_text"]}
        known = {} if delta is None else {"delta_ns": int(delta), "line": line}
        rows.append({**lines, "delta_ns": None, "line": None, **known, "sure": bool(sure)})
    return rows


SIDE_FIGURES: Final = {"a": ("timeline", "memory"), "b": ("timeline",)}
"""Figures of the dashboard for each side; a single memory figure has both curves."""
_MOST_STEPS: Final = 2000


class ComparisonProtocol:
    """Answer the questions of every page that shows one comparison; see `can_be_shown`."""

    entry: Final = "comparison_widget"
    styles: Final[tuple[Style, ...]] = ("dashboard", "comparison")

    def __init__(self, c: Comparison) -> None:
        self.c, self.selection = c, c.selection
        self._sides: dict[tuple[str, int], PageQueries] = {}
        self._executor: LatestTaskExecutor[Answer] = LatestTaskExecutor()

    def document(self) -> str:
        """Return the empty figures of both sides as JSON: one Bokeh document each, by ``a`` and ``b``."""
        return json.dumps(page_document(self.c))

    def settings(self) -> dict[str, Any]:
        """Return small facts for the page."""
        return page_settings(self.c)

    def static(self, uid: str) -> str:
        """Return the HTML for a notebook without a kernel; a live view next to it hides it by `uid`."""
        return fragment(self.c, uid)

    def answer(self, request: Mapping[str, Any]) -> tuple[dict[str, Any], list[bytes]]:
        """Answer ``compared``, ``align`` or ``shown``, or pass a question ``of`` a side (and ``run``) on to
        it.

        The answer is that of `notebook_prof.service.executor.QueryService.answer`.
        """
        try:
            kind, side = request.get("t"), request.get("of")
            if side in SIDES:
                queries = self._queries(side, request.get("run"))
                if kind != "own":
                    return queries.answer(request)
                own = queries.select(request.get("patch") or {}, str(request.get("origin")), None)
                return {**own, "columns": []}, []
            if kind == "align":
                return self._aligned(request), []
            if kind == "shown":
                return {"document": self.document(), "settings": self.settings(), "columns": []}, []
            if kind != "compared":
                raise NotebookProfError(f"there is no question {kind!r} to a comparison")
            runs = [at.run for at in self.c.aligned]
            made = self._executor.get(("compared", *runs), lambda: compared(self.c))
            return ({"pending": True, "columns": []}, []) if made is None else (made.content, made.buffers)
        except Exception as error:  # tell the page, since nobody reads the kernel's log
            return {"failed": f"{type(error).__name__}: {error}", "columns": []}, []

    def select(self, patch: Mapping[str, Any], source: str, base_revision: int | None) -> dict[str, Any]:
        """Apply a page's patch; see `notebook_prof.service.executor.patched`."""
        return patched(self.c.selection, patch, source, base_revision)

    def _queries(self, side: str, run: int | None) -> PageQueries:
        """Return the queries of a side's recording; made at the first question."""
        number = SIDES.index(side)
        run = self.c.aligned[number].run if run is None else int(run)
        if (side, run) not in self._sides:
            selection = (self.c.selection.a, self.c.selection.b)[number]
            self._sides.setdefault((side, run), PageQueries(self.c.recording(number, run).trace, selection))
        return self._sides[side, run]

    def _aligned(self, request: Mapping[str, Any]) -> dict[str, Any]:
        pairs = []
        for side, at in zip(SIDES, self.c.aligned, strict=True):
            run, step = chosen if isinstance(chosen := request[side], list | tuple) else (at.run, chosen)
            pairs.append((int(run), int(step)))
        self.c.align(*pairs)
        return {"state": self.c.selection.to_state(), "columns": []}


def can_be_shown(c: Comparison) -> bool:
    """Return whether both sides have recordings with slices, and thus timelines."""
    return all(len(profile.trace.slices) > 0 for profile in c.shown) if c.has_recordings else False


def page_document(c: Comparison) -> dict[str, Any]:
    """Return the Bokeh documents of both sides."""
    documents = {}
    for side, profile in zip(SIDES, c.shown, strict=True):
        document = json.loads(dashboard_document(profile.trace))
        roots = dict(zip(FIGURES, document["roots"], strict=True))
        documents[side] = {**document, "roots": [roots[name] for name in SIDE_FIGURES[side]]}
    return documents


def page_settings(c: Comparison) -> dict[str, Any]:
    """Return small facts: the verdict, the names of the sides, their steps, and counterparts."""
    words = c.selection.counterparts.words
    return {
        "page": "comparison",
        "bokeh": VERSION,
        "verdict": "\n".join(sentences(c)),
        "names": list(c.names),
        "delta": c.delta_words,
        "sides": {
            side: {**dashboard_settings(profile.trace, ""), "figures": list(SIDE_FIGURES[side])}
            for side, profile in zip(SIDES, c.shown, strict=True)
        },
        "steps": {side: _steps(c, number) for number, side in enumerate(SIDES)},
        # for each full recording: its number, the step at which it is aligned, and that step's duration
        "runs": {
            side: [[at.run, at.step, at.dur_ns] for at in c.median_steps(number)]
            for number, side in enumerate(SIDES)
        },
        "shown": [at.run for at in c.aligned],
        "words": {
            dimension: [{key: list(raws) for key, raws in side.items()} for side in sides]
            for dimension, sides in words.items()
        },
    }


def _steps(c: Comparison, side: int) -> Any:
    """Return ``step ts dur`` of the recording shown; if it has very many steps, every n-th and the aligned
    one."""
    at: AlignedStep = c.aligned[side]
    table = c.steps[(c.steps["side"] == c.names[side]) & (c.steps["run"] == at.run)].sort_values("ts")
    apart = max(1, len(table) // _MOST_STEPS)
    keep = (table.reset_index().index % apart == 0) | (table["step"] == at.step).to_numpy()
    rows = table.loc[keep, ["step", "ts", "dur_ns"]]
    return rows.to_numpy(np.int64).tolist()


def comparison_report(c: Comparison) -> str:
    """Return the whole HTML file as text: the page, with `fragment` as its static form."""
    # The file contains both recordings as in a single report, each with half of the space.
    static = fragment(c)
    look = "#nbp-static { margin-top: 14px; } " + stylesheet() + stylesheet("comparison")
    data = {
        "nbp-selection": json_text(c.selection.to_state()),
        "nbp-settings": json_text({**page_settings(c), "uid": ""}),
        "nbp-document": json_text(page_document(c)),
        "nbp-compared": json_text(answer_text(compared(c))),
    }
    room = bytes_left("comparison_report", look, static, data) // 2
    for side, profile in zip(SIDES, c.shown, strict=True):
        data |= trace_blocks(profile.trace, "", room, f"nbp-{side}-", with_tabs=False)
    title = f"{c.names[0]} and {c.names[1]} · notebook_prof"
    return report_file("comparison_report", look, static, data, title)
