"""Slow queries and index building in worker threads."""

from __future__ import annotations

import json
import threading
import time
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Hashable, Mapping
from contextlib import suppress
from typing import Any, ClassVar, Final, Generic, TypeVar

from ..background import start_thread
from ..errors import NotebookProfError, nearest
from ..selection import Selection
from ..trace import Trace
from . import answers
from .answers import account, phases, table
from .packing import Answer
from .questions import decode
from .store import ViewStore

T = TypeVar("T")

PATIENCE_S: Final = 0.08
"""Longest wait of a question before the page is told to ask again."""

_REMEMBERED: Final = 24


class LatestTaskExecutor(Generic[T]):
    """Runs slow tasks in one worker thread, for callers that ask again until the result is ready."""

    # Only the newest pending request is kept, besides the latest answers.
    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._done: OrderedDict[Hashable, T | Exception] = OrderedDict()
        self._next: tuple[Hashable, Callable[[], T]] | None = None
        self._doing: Hashable = None
        self._working = False

    def get(self, key: Hashable, make: Callable[[], T]) -> T | None:
        """Return the result of `make`, or None if it is not ready; an error is raised."""
        with self._changed:
            if key not in self._done and key != self._doing:
                self._next = (key, make)
                if not self._working:
                    self._working = True
                    if start_thread(self._work, "notebook_prof tabs") is None:
                        self._work()
            if not self._changed.wait_for(lambda: key in self._done, PATIENCE_S):
                return None
            result = self._done[key]
            if isinstance(result, Exception):
                # so that the next call tries again
                del self._done[key]
                raise result
            self._done.move_to_end(key)
            return result

    def _work(self) -> None:
        while True:
            with self._changed:
                self._doing = None
                if self._next is None:
                    self._working = False
                    return
                (key, make), self._next = self._next, None
                self._doing = key
            result: T | Exception
            try:
                result = make()
            except Exception as error:
                result = error
            with self._changed:
                self._done[key] = result
                while len(self._done) > _REMEMBERED:
                    self._done.popitem(last=False)
                self._changed.notify_all()


LONG: Final = 1_000_000
"""Number of slices from which indexes are built in a separate thread."""

COMES_S: Final = 3.0
"""Longest wait for a page before the other indexes are built."""

FIRST_PICTURE_S: Final = 30.0
"""Longest wait for the first picture of an open page."""


class IndexPrefetcher:
    """Builds the indexes of a long trace in the order in which a page needs them."""

    # First the rows of the first picture; then the table; then all rows. What the first selections need is
    # built when the headline and the static form are there. Short traces have their indexes built on request;
    # the table, the phases and the account are computed while the page mounts its figures.
    def __init__(self, store: ViewStore) -> None:
        self._store = store
        self._came, self._drawn, self._done = (threading.Event() for _ in range(3))
        self._starting = threading.Lock()
        self._is_started = self._has_foreseen = False
        if len(store.trace.slices) < LONG:
            self._done.set()

    def start(self) -> None:
        """Start building, once, if the trace is long."""
        with self._starting:
            if not (self._is_started or self._done.is_set()):
                self._is_started = True
                if start_thread(self._work, "notebook_prof views") is None:  # all is built on request
                    self._done.set()

    def page_came(self) -> None:
        """Note that a page is open: the first picture takes precedence over everything that can wait."""
        self._came.set()

    def page_drawn(self) -> None:
        """Note that the first picture was requested: the rest is built after it."""
        self._came.set()
        self._drawn.set()

    def foresee(self) -> None:
        """While the page mounts its figures, compute what it asks for next, once, if the trace is short."""
        if self._done.is_set() and not self._has_foreseen:
            self._has_foreseen = True
            start_thread(self._foresee, "notebook_prof ahead")

    def _foresee(self) -> None:
        for ask in (table, phases, account):
            with suppress(Exception), self._store.lock:  # the question reports the error
                ask(self._store, {}, {})

    def wait_drawn(self) -> bool:
        """Wait until the first picture was requested. Returns False after a few seconds without a page."""
        return self._came.wait(COMES_S) and self._drawn.wait(FIRST_PICTURE_S)

    def wait(self) -> None:
        """Wait until all rows can be drawn."""
        self._done.wait()

    def _work(self) -> None:
        store = self._store
        try:
            store.draw_early()
            _ = store.name_styles.codes
            self.wait_drawn()
            table(store, {}, {"top": 1})
            _ = store.rows, store.wide, store.blocks
        except Exception:  # the question builds it again and reports the error
            pass
        finally:
            self._done.set()

    def prepare_selections(self) -> None:
        """Build what the first selection of each kind needs, if the trace is long, and memory by slice."""
        store, span = self._store, self._store.trace.span
        if len(store.trace.slices) < LONG:
            return
        with suppress(Exception):  # the question builds it again and reports the error
            table(store, {"window": (span.start, (span.start + span.end) // 2)}, {"top": 1})
            for dimension in ("name", "phase", "category", "step"):
                store.choices.runs_of(dimension)
            for device in store.memory_devices:
                store.memory_owners(device)


# Questions of a page and their answers.


def patched(
    selection: Selection, patch: Mapping[str, Any], source: str, base_revision: int | None
) -> dict[str, Any]:
    """Apply a page's patch; return the new state, or a message in ``failed`` and the unchanged state."""
    # `base_revision` is the revision that the page had seen
    failed = {}
    try:
        selection.apply_patch(patch, source, base_revision)
    except NotebookProfError as error:
        failed = {"failed": str(error)}
    except Exception as error:  # tell the page: the patch or the revision has the wrong type
        failed = {"failed": f"{type(error).__name__}: {error}"}
    return {**failed, "state": selection.to_state()}


_MANY: Final = 100_000
"""Number of slices from which sums over all of them are computed in a worker thread."""
_SUMS: Final = ("account", "phases", "selected", "table")


class QueryService:
    """Answers the questions of every page that shows one Trace under one Selection."""

    # The selection is read at every question, and written only by `select`.
    questions: ClassVar[Mapping[str, answers.Ask]] = answers.QUESTIONS
    """Questions that may be asked. Other packages add theirs."""
    slow: ClassVar[frozenset[str]] = frozenset({"calls", "doubts", "path", "search", "what_if", "why"})
    """Questions that always run in a worker thread."""

    def __init__(self, trace: Trace, selection: Selection) -> None:
        self.store = ViewStore(trace, fold=True)
        self._unfolded = ViewStore(trace)  # answers pages that show all frames
        self.prefetcher = IndexPrefetcher(self.store)
        # one for each kind, so that no table waits for a tab
        self._executors: defaultdict[str, LatestTaskExecutor[Answer]] = defaultdict(LatestTaskExecutor)
        self.selection = selection

    def answer(self, request: Mapping[str, Any]) -> tuple[dict[str, Any], list[bytes]]:
        """Answer one question: JSON with ``ms``, ``seq`` and ``revision``, and the buffers of its columns."""
        # ``failed`` is an error message. ``pending`` asks the page to ask again while a thread computes it.
        began = time.perf_counter()
        kind = str(request.get("t"))
        state = self.selection.to_state()
        try:
            if (ask := self.questions.get(kind)) is None:
                raise NotebookProfError(f"no question {kind!r}: {nearest(kind, self.questions)}")
            request = decode(request)
            result = self._make_answer(kind, ask, state, request)
            if result is None:
                return {"pending": True, "columns": [], "seq": request.get("seq")}, []
        except Exception as error:  # tell the page, since nobody reads the kernel's log
            result = Answer({"failed": f"{type(error).__name__}: {error}", "columns": []})
        if kind == "timeline":
            self.prefetcher.page_drawn()
        elif kind == "names":
            self.prefetcher.foresee()
        header = {"seq": request.get("seq"), "revision": state["revision"]}
        return {**result.content, **header, "ms": (time.perf_counter() - began) * 1e3}, result.buffers

    def _make_answer(
        self, kind: str, ask: answers.Ask, state: Mapping[str, Any], request: Mapping[str, Any]
    ) -> Answer | None:
        store = self._unfolded if request.get("unfolded") else self.store
        # slow ones run in a worker thread, to block neither this one nor the lock
        slow = kind in self.slow or (kind in _SUMS and len(self.store.trace.slices) >= _MANY)
        if not slow and not (kind == "table" and request.get("filter")):  # names against a typed text
            with store.lock:
                return ask(store, state, request)
        if kind in _SUMS:  # a page asks for them after the first picture
            self.prefetcher.page_drawn()
        self.prefetcher.start()
        still = {**state, "revision": None, "focus": None, "pinned": None}
        question = {name: value for name, value in request.items() if name not in ("seq", "rid")}
        key = json.dumps([question, still], sort_keys=True, default=str)

        def make() -> Answer:
            if kind == "doubts":  # they take seconds, and no view waits for them
                self.prefetcher.wait()
            return ask(store, still, request)

        return self._executors[kind].get(key, make)

    def select(self, patch: Mapping[str, Any], source: str, base_revision: int | None) -> dict[str, Any]:
        """Apply a page's patch; see `patched`."""
        return patched(self.selection, patch, source, base_revision)
