"""Questions of a page and their answers.

Without a kernel (in the HTML report) ``js/src/report/answers.js`` answers the same questions in the page.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Any, ClassVar, Final

from ..errors import NotebookProfError, nearest
from ..selection import Selection
from ..trace import Trace
from . import answers
from .executor import IndexPrefetcher, LatestTaskExecutor
from .messages import decode
from .packing import Answer
from .store import ViewStore

_LONG: Final = 100_000
"""Slices from which on their sums by part of the account are worked out beside."""


class QueryService:
    """Answer the questions of every page that shows one Trace under one Selection.

    The selection is read at every question, and written only by `select`.
    """

    questions: ClassVar[Mapping[str, answers.Ask]] = answers.QUESTIONS
    """What may be asked. A floor above adds questions of its own."""
    slow: ClassVar[frozenset[str]] = frozenset({"calls", "doubts", "path", "what_if", "why"})
    """Questions that always get a thread of their own."""

    def __init__(self, trace: Trace, selection: Selection) -> None:
        self.store = ViewStore(trace)
        self.prefetcher = IndexPrefetcher(self.store)
        self.executor: LatestTaskExecutor[Answer] = LatestTaskExecutor()
        self.selection = selection

    def answer(self, request: Mapping[str, Any]) -> tuple[dict[str, Any], list[bytes]]:
        """Answer one question: JSON with ``ms``, ``seq`` and ``revision``, and the buffers of its columns.

        ``failed`` is an error message. ``pending`` asks the page to ask again while an index is built.
        """
        began = time.perf_counter()
        kind = str(request.get("t"))
        state = self.selection.to_state()
        try:
            if (ask := self.questions.get(kind)) is None:
                raise NotebookProfError(f"no question {kind!r}: {nearest(kind, self.questions)}")
            request = decode(request)
            made = self._make_answer(kind, ask, state, request) if self.prefetcher.ready(kind) else None
            if made is None:
                return {"pending": True, "columns": [], "seq": request.get("seq")}, []
            result = made
        except Exception as error:  # a page must be told; the kernel's log is no place anyone looks
            result = Answer({"failed": f"{type(error).__name__}: {error}", "columns": []})
        self.prefetcher.answered(kind)
        header = {"seq": request.get("seq"), "revision": state["revision"]}
        return {**result.content, **header, "ms": (time.perf_counter() - began) * 1e3}, result.buffers

    def _make_answer(
        self, kind: str, ask: answers.Ask, state: Mapping[str, Any], request: Mapping[str, Any]
    ) -> Answer | None:
        if self._slow(kind, state, request):
            return self._in_executor(ask, state, request)
        with self.store.lock:
            return ask(self.store, state, request)

    def _slow(self, kind: str, state: Mapping[str, Any], request: Mapping[str, Any]) -> bool:
        """Return whether a question runs in a worker thread, so that it blocks neither this one nor the lock.

        Every question that matches names against a typed text does.
        """
        if kind == "search" or (kind == "table" and request.get("filter")):
            return True
        if kind == "account":
            return len(self.store.trace.slices) >= _LONG
        return kind in self.slow or (kind == "table" and answers.table_is_slow(self.store, state, request))

    def _in_executor(
        self, ask: answers.Ask, state: Mapping[str, Any], request: Mapping[str, Any]
    ) -> Answer | None:
        still = {**state, "revision": None, "focus": None, "pinned": None}
        question = {name: value for name, value in request.items() if name not in ("seq", "rid")}
        key = json.dumps([question, still], sort_keys=True, default=str)
        return self.executor.get(key, lambda: ask(self.store, still, request))

    def select(self, patch: Mapping[str, Any], source: str, base_revision: int | None) -> dict[str, Any]:
        """Apply a page's patch; return the new state, or ``failed`` with a message and the unchanged state.

        `base_revision` is the revision that the page had seen.
        """
        try:
            self.selection.apply_patch(patch, source, base_revision)
        except NotebookProfError as error:
            return {"failed": str(error), "state": self.selection.to_state()}
        except Exception as error:  # a patch or a revision of the wrong kind: the page must be told
            message = f"{type(error).__name__}: {error}"
            return {"failed": message, "state": self.selection.to_state()}
        return {"state": self.selection.to_state()}
