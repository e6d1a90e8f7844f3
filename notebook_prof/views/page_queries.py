"""A page's questions to the service and to the tabs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from ..service.answers import Ask
from ..service.executor import QueryService
from ..service.packing import Answer
from ..service.store import ViewStore


def panel(store: ViewStore, state: Mapping[str, Any], request: Mapping[str, Any]) -> Answer:
    """Answer a tab, as `answers.tabs.panel`; Bokeh is imported with the first tab."""
    from .tab_answers import panel as made

    return made(store, state, request)


class PageQueries(QueryService):
    """Answer the questions, including tabs, of every page that shows one Trace under one Selection."""

    questions: ClassVar[Mapping[str, Ask]] = {**QueryService.questions, "panel": panel}
    slow: ClassVar[frozenset[str]] = QueryService.slow | {"panel"}
