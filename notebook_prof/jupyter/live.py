"""The display during a recorded cell: its steps, and a button that ends the recording but not the cell.

A thread updates the page twice a second. The display needs a front-end that draws widgets and keeps
listening, recognised by the cell's id in its requests. Terminals have none, nor do programs that only execute
cells (nbclient, papermill, nbconvert).

The page's messages come by the kernel's control channel, which has a thread of its own. JupyterLab and
Notebook give access to it. Elsewhere they come by the widget's comm, which a busy kernel reads only if it has
subshells and the front-end uses them. So the page offers the button only once the kernel has answered a
message; until then it says how to end a recording.
"""

from __future__ import annotations

import ast
import contextvars
import math
import re
import threading
import time
import uuid
from collections import deque
from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import traitlets
from IPython import get_ipython
from IPython.display import display

from ..session.engine import Session
from ..session.records import Run
from ..session.schedule import StepRange
from ..trace.arrays import IntArray
from ..units import cut
from ..views.bundle import script, stylesheet
from .widget import QuietWidget

AFTER_S: Final = 1.0
"""Cells that take less time show nothing."""
PERIOD_S: Final = 0.5
CONTROL: Final = "notebook_prof_live"
"""The type of the page's messages on the control channel."""
_MIME: Final = "application/vnd.jupyter.widget-view+json"


class LiveWidget(QuietWidget):
    """One display of a running recording."""

    _esm = script("live_widget")
    _css = stylesheet("live")
    state = traitlets.Dict().tag(sync=True)
    heard = traitlets.Bool(False).tag(sync=True)
    """Whether a message of the page has arrived while the cell runs."""

    def __init__(self, session: Session, state: dict[str, Any]) -> None:
        self._session = session
        super().__init__(state=state)
        self.on_msg(self._receive)

    def _receive(self, _widget: Any, message: Mapping[str, Any], _buffers: Any) -> None:
        if isinstance(message, Mapping):
            self.take(message)
            self.heard = True

    def take(self, message: Mapping[str, Any]) -> None:
        """Do what the page asks for. Any thread may call this."""
        if message.get("t") == "stop":
            self._session.early_end.ask()


class LiveDisplay:
    """Shows a recording that takes longer than a second, and removes the display when it ends."""

    def __init__(self, session: Session, namespace: Mapping[str, Any]) -> None:
        self._state = LiveState(session, namespace, time.time_ns())
        self._session, self._uid = session, uuid.uuid4().hex[:12]
        self._ended, self._telling = threading.Event(), threading.Lock()
        self._widget: LiveWidget | None = None
        self._heard = False
        handlers = getattr(getattr(get_ipython(), "kernel", None), "control_handlers", None)
        self._handlers = handlers if isinstance(handlers, dict) else {}
        own = contextvars.copy_context()  # so that messages belong to the cell
        self._thread = threading.Thread(
            target=own.run, args=(self._run,), name="notebook_prof live", daemon=True
        )

    def begin(self) -> None:
        """Start the thread. It waits for `AFTER_S` first."""
        self._thread.start()

    def end(self) -> None:
        """Remove the display, since the Profile has all of its contents. Never raises."""
        self._ended.set()
        try:
            with self._telling:
                widget, self._widget = self._widget, None
                if widget is not None:
                    self._handlers.pop(CONTROL, None)
                    widget.close()
                    display({"text/plain": ""}, raw=True, display_id=self._uid, update=True)
        except Exception:  # the display must not make a cell fail
            return

    def _run(self) -> None:
        wait = AFTER_S
        while not self._ended.wait(wait):
            wait = PERIOD_S
            try:
                with self._telling:
                    if self._ended.is_set():
                        return
                    self._tell(self._state.at(time.time_ns()))
            except Exception:  # the recording goes on without a display
                return

    def _tell(self, state: dict[str, Any]) -> None:
        if self._widget is not None:
            with self._widget.hold_sync():
                self._widget.state = state
                self._widget.heard = self._widget.heard or self._heard
            return
        self._widget = LiveWidget(self._session, state)
        self._handlers[CONTROL] = self._control
        view = {"version_major": 2, "version_minor": 0, "model_id": self._widget.model_id}
        text = "This cell is being recorded; its profile appears when it ends."
        display({_MIME: view, "text/plain": text}, raw=True, display_id=self._uid)

    def _control(self, _stream: Any, _identities: Any, message: Mapping[str, Any]) -> None:
        """Handle a message on the control channel, in the kernel's thread for it."""
        # traits are set by our own thread, whose messages belong to the cell
        content, widget = message.get("content"), self._widget
        if widget is not None and isinstance(content, Mapping):
            self._heard = True
            widget.take(content)


_LAST_MARKS: Final = 4096
_LINES: Final = 5
_TEXT: Final = 48
_RATE_NS: Final = 3_000_000_000
"""Period over which the rate is measured, in ns."""
_BACKWARD: Final = re.compile(r"\.backward\(")
_OPTIMIZER: Final = re.compile(
    r"\b\w*(?:optim|opt|scaler|sched)\w*\.(?:step|zero_grad|update|unscale_)\(", re.I
)
_SIZED: Final = (list, tuple, range, dict, set, frozenset, str, bytes, np.ndarray)
"""Types whose length can be read without running user code."""
_PASSED_ON: Final = frozenset({"enumerate", "tqdm", "trange", "iter", "reversed", "sorted"})
"""Functions that return as many items as they are given."""


class LiveState:
    """Assembles the state of a recording, in a thread other than the recorded one."""

    def __init__(self, session: Session, namespace: Mapping[str, Any], began_ns: int) -> None:
        self._session, self._namespace, self._began_ns = session, namespace, began_ns
        self._counts: deque[tuple[int, int]] = deque(maxlen=64)

    def at(self, now_ns: int) -> dict[str, Any]:
        """Return the state: JSON of at most 1.5 kB. Its type is `LiveState` in ``js/src/live/texts.js``."""
        # ``of`` and ``step``: length of this loop, if known, and how many of its steps have ended; ``line``:
        # its head; ``left``: seconds until it ends; ``last``: times of the last recorded steps in µs;
        # ``lines``: line, text, share of the last steps, phase; ``until``: the request, and how well the
        # median is known.
        window, end, schedule = self._session.window, self._session.early_end, self._session.plan.schedule
        run, recorded, times = window.progress()
        steps = window.step_count
        self._counts.append((now_ns, steps))
        while len(self._counts) > 2 and now_ns - self._counts[0][0] > _RATE_NS:
            self._counts.popleft()
        (first_ns, first), (last_ns, last) = self._counts[0], self._counts[-1]
        rate = (last - first) * 1e9 / (last_ns - first_ns) if last_ns > first_ns else 0.0
        length = None if not run.text else loop_length(run.text, self._namespace)
        within = steps - run.first
        left = (length - within) / rate if length and rate > 0 and length >= within else None
        message: dict[str, Any] = {
            "seconds": round((now_ns - self._began_ns) / 1e9, 1),
            "steps": steps,
            "rate": _figures(rate),
            "of": length,
            "step": within,
            "line": run.line,
            "left": None if left is None else _figures(left),
            "state": "recording" if window.recording else "after" if window.past or end.reason else "before",
            "reason": end.reason,
            "recorded": recorded,
            "last": [round(time / 1000) for time in times],
            "median": _figures(float(np.median(times)) / 1000) if times else None,
            "window": [schedule.first, schedule.end] if isinstance(schedule, StepRange) else None,
            **self._spent(run),
            "until": None,
        }
        if end.until is not None:
            median, low, high = end.interval or (0.0, 0.0, 0.0)
            width = max(high - median, median - low) / median if median > 0 else math.inf
            message["until"] = [end.until, _figures(width) if math.isfinite(width) else None]
        return message

    def _spent(self, run: Run) -> dict[str, Any]:
        """Return the most expensive statements of the last steps, and the phases."""
        lines: list[list[Any]] = []
        phases: dict[str, float] = {}
        rows = np.array(self._session.cell.marks.rows[-_LAST_MARKS:], np.int64)
        window = self._session.window
        if window.recording and window.step_count and len(rows) % 2 == 0:
            ts, line = rows[0::2], rows[1::2]
            in_loop = ts >= run.begin_ns
            number, spent = time_by_line(ts[in_loop], line[in_loop])
            whole = max(int(spent.sum()), 1)
            for row in np.argsort(-spent, kind="stable").tolist():
                text, share = self._session.cell.text(int(number[row])), float(spent[row]) / whole
                phase = "data" if number[row] == run.line else phase_of(text)
                phases[phase] = phases.get(phase, 0.0) + share
                if len(lines) < _LINES:
                    lines.append([int(number[row]), cut(text, _TEXT), round(share, 3), phase])
        return {"lines": lines, "phases": {name: round(share, 3) for name, share in phases.items()}}


def time_by_line(ts: IntArray, line: IntArray) -> tuple[IntArray, IntArray]:
    """Return the lines of the marks, in ascending order, and the time from each mark to the next."""
    lines, number = np.unique(line[:-1], return_inverse=True)
    spent = np.zeros(len(lines), np.int64)
    np.add.at(spent, number, np.maximum(np.diff(ts), 0))
    return lines[lines > 0], spent[lines > 0]


def phase_of(text: str) -> str:
    """Guess the phase of a statement from its source: ``backward``, ``optimizer`` or ``other``."""
    if _BACKWARD.search(text):
        return "backward"
    return "optimizer" if _OPTIMIZER.search(text) else "other"


def loop_length(head: str, namespace: Mapping[str, Any]) -> int | None:
    """Return how many iterations a loop has, if its head shows that without running user code."""
    try:
        (loop,) = ast.parse(f"{head.strip().removesuffix(':')}:\n    pass").body
    except (SyntaxError, ValueError):
        return None
    return _length(loop.iter, namespace) if isinstance(loop, ast.For) else None


def _length(node: ast.expr, namespace: Mapping[str, Any]) -> int | None:
    if isinstance(node, ast.Name):
        return _size(namespace.get(node.id))
    if not isinstance(node, ast.Call) or not node.args:
        return None
    name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
    if name in ("range", "trange"):
        try:
            return len(range(*(_integer(one, namespace) for one in node.args)))
        except (TypeError, ValueError, OverflowError):  # an unknown number, or a step of 0
            return None
    if name == "zip":
        lengths = [_length(one, namespace) for one in node.args]
        return min((one for one in lengths if one is not None), default=None) if None not in lengths else None
    return _length(node.args[0], namespace) if name in _PASSED_ON else None


def _integer(node: ast.expr, namespace: Mapping[str, Any]) -> Any:
    value = namespace.get(node.id) if isinstance(node, ast.Name) else getattr(node, "value", None)
    return value if type(value) is int else None


def _size(value: Any) -> int | None:
    kind = type(value)
    if kind in _SIZED:
        return len(value) if getattr(value, "ndim", 1) else None
    is_loader = kind.__name__ == "DataLoader" and kind.__module__.startswith("torch.")
    return _batches(value) if is_loader else None


def _batches(loader: Any) -> int | None:
    """Return the number of batches of a DataLoader, if its samplers and dataset are PyTorch's own."""
    facts = vars(loader)
    sampler, batches = facts.get("sampler"), facts.get("batch_sampler")
    source = vars(sampler).get("data_source") if hasattr(sampler, "__dict__") else None
    parts = [one for one in (sampler, batches, source) if one is not None]
    if any(not type(one).__module__.startswith("torch.") for one in parts):
        return None
    try:
        return len(sampler if batches is None else batches)
    except Exception:  # samplers without a length
        return None


def _figures(value: float) -> float:
    """Round to three figures, to keep the message short."""
    return float(f"{value:.3g}") if math.isfinite(value) else 0.0
