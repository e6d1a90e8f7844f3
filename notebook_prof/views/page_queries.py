"""A page's questions to the service and to the tabs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Final

import numpy as np

from ..service.answers import Ask
from ..service.executor import QueryService
from ..service.packing import Answer, pack
from ..service.store import ViewStore


def panel(store: ViewStore, state: Mapping[str, Any], request: Mapping[str, Any]) -> Answer:
    """Answer a tab, as `answers.tabs.panel`; Bokeh is imported with the first tab."""
    from .tab_answers import panel as made

    return made(store, state, request)


MOST_IN_PAGE: Final = 300_000
"""Number of slices up to which a page answers by itself; see `benchmarks.interaction`."""
_MOST_EVENTS: Final = 100_000


def recording(store: ViewStore, state: Mapping[str, Any], request: Mapping[str, Any]) -> Answer:
    """Answer with the columns of the recording, packed as in a report, if a page can hold them."""
    from .report.html_file import json_text
    from .report.report_columns import payload

    if (slices := store.columns.n) > MOST_IN_PAGE:
        return pack({"too_many": slices}, {})
    data = json_text(payload(store, None, _MOST_EVENTS)).encode()
    return pack({"slices": slices}, {"json": np.frombuffer(data, np.uint8)})


class PageQueries(QueryService):
    """Answer the questions, including tabs, of every page that shows one Trace under one Selection."""

    questions: ClassVar[Mapping[str, Ask]] = {
        **QueryService.questions,
        "panel": panel,
        "recording": recording,
    }
    slow: ClassVar[frozenset[str]] = QueryService.slow | {"panel", "recording"}
