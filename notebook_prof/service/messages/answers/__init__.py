"""Answers to a page: small facts as JSON, and columns of numbers as buffers.

For every kind of recording, a test checks the answers of `notebook_prof.service.answers`,
`notebook_prof.views.tab_answers` and `notebook_prof.ranks.page` against these types.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ..base import Declared, Header
from . import slices, tabs, timeline, trace

MODULES: Final = (trace, timeline, slices, tabs)
"""Modules of messages, in the order in which their Structs are written to TypeScript."""

ANSWERS: Final[Mapping[str, tuple[type[Declared], ...]]] = {
    "meta": (trace.MetaContent,),
    "doubts": (trace.DoubtsAnswer,),
    "names": (trace.NamesAnswer,),
    "account": (trace.AccountAnswer,),
    "legend": (timeline.LegendAnswer,),
    "lod": (timeline.LodCells, timeline.LodSlices, timeline.LodMarks),
    "strip": (timeline.StripAnswer, timeline.StripMarks),
    "memory": (timeline.MemoryAnswer, timeline.NoMemory),
    "counters": (timeline.CountersAnswer,),
    "phases": (timeline.PhasesAnswer,),
    "table": (slices.TableAnswer,),
    "detail": (slices.SliceDetail, slices.NoSlice),
    "what_if": (slices.WhatIfAnswer, slices.NoWhatIf),
    "why": (slices.WhyAnswer, slices.NoWhy),
    "find": (slices.FoundSlice, slices.NothingFound),
    "neighbour": (slices.FoundSlice, slices.NothingFound),
    "search": (slices.Match, slices.NoMatch),
    "calls": (slices.CallsAnswer,),
    "panel": (tabs.PanelAnswer, tabs.NoPanel),
    "recording": (tabs.RecordingAnswer, tabs.NoRecording),
    "ranks": (tabs.RanksAnswer,),
    "path": (slices.PathAnswer, slices.NoPath),
    "selected": (timeline.SelectedAnswer,),
}
"""Answers by the name of the question."""

__all__ = ["ANSWERS", "MODULES", "Declared", "Header"]
