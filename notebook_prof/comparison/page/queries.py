"""Answers for the page of a comparison, and the page as one file without a kernel.

Questions about a timeline are passed on to its side.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from ...errors import NotebookProfError
from ...service.executor import LatestTaskExecutor
from ...service.packing import Answer
from ...views.bundle import VERSION, stylesheet
from ...views.dashboard import FIGURES, dashboard_document, dashboard_settings
from ...views.page_queries import PageQueries
from ...views.report.html_file import json_text
from ...views.report.report import bytes_left, report_file, trace_blocks
from ...views.report.tabs import answer_text
from ..selected import SIDES
from ..verdict import sentences
from .panel import compared
from .static_html import fragment

if TYPE_CHECKING:
    from ..linked import AlignedStep, LinkedSides

SIDE_FIGURES: Final = {"a": ("timeline", "memory"), "b": ("timeline",)}
"""Figures of the dashboard for each side; a single memory figure has both curves."""
_MOST_STEPS: Final = 2000


class ComparisonProtocol:
    """Answer the questions of every page that shows one comparison; see `can_be_shown`."""

    def __init__(self, c: LinkedSides) -> None:
        self.c = c
        self._sides: dict[tuple[str, int], PageQueries] = {}
        self._executor: LatestTaskExecutor[Answer] = LatestTaskExecutor()

    def document(self) -> str:
        """Return the empty figures of both sides as JSON: one Bokeh document each, by ``a`` and ``b``."""
        return json.dumps(page_document(self.c))

    def settings(self) -> dict[str, Any]:
        """Return small facts for the page."""
        return page_settings(self.c)

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
        """Apply a page's patch; see `notebook_prof.service.executor.QueryService.select`."""
        try:
            self.c.selection.apply_patch(patch, source, base_revision)
        except NotebookProfError as error:
            return {"failed": str(error), "state": self.c.selection.to_state()}
        return {"state": self.c.selection.to_state()}

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


def can_be_shown(c: LinkedSides) -> bool:
    """Return whether both sides have recordings with slices, and thus timelines."""
    return all(len(profile.trace.slices) > 0 for profile in c.shown) if c.has_recordings else False


def page_document(c: LinkedSides) -> dict[str, Any]:
    """Return the Bokeh documents of both sides."""
    documents = {}
    for side, profile in zip(SIDES, c.shown, strict=True):
        document = json.loads(dashboard_document(profile.trace))
        roots = dict(zip(FIGURES, document["roots"], strict=True))
        documents[side] = {**document, "roots": [roots[name] for name in SIDE_FIGURES[side]]}
    return documents


def page_settings(c: LinkedSides) -> dict[str, Any]:
    """Return small facts: the verdict, the names of the sides, their steps, and counterparts."""
    words = c.selection.counterparts.words
    return {
        "page": "comparison",
        "bokeh": VERSION,
        "verdict": "\n".join(sentences(c)),
        "names": list(c.names),
        "sides": {
            side: {**dashboard_settings(profile.trace, ""), "figures": list(SIDE_FIGURES[side])}
            for side, profile in zip(SIDES, c.shown, strict=True)
        },
        "steps": {side: _steps(c, number) for number, side in enumerate(SIDES)},
        "runs": {side: _runs(c, number) for number, side in enumerate(SIDES)},
        "shown": [at.run for at in c.aligned],
        "words": {
            dimension: [{key: list(raws) for key, raws in side.items()} for side in sides]
            for dimension, sides in words.items()
        },
    }


def _steps(c: LinkedSides, side: int) -> Any:
    """Return ``step ts dur`` of the recording shown; if it has very many steps, every n-th and the aligned
    one."""
    at: AlignedStep = c.aligned[side]
    table = c.steps[(c.steps["side"] == c.names[side]) & (c.steps["run"] == at.run)].sort_values("ts")
    apart = max(1, len(table) // _MOST_STEPS)
    keep = (table.reset_index().index % apart == 0) | (table["step"] == at.step).to_numpy()
    rows = table.loc[keep, ["step", "ts", "dur_ns"]]
    return rows.to_numpy(np.int64).tolist()


def _runs(c: LinkedSides, side: int) -> list[list[int]]:
    """Return the number of each full recording, the step to align it at, and the step's duration."""
    return [[at.run, at.step, at.dur_ns] for at in c.median_steps(side)]


def comparison_report(c: LinkedSides) -> str:
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
