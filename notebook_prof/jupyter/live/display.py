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

import contextvars
import threading
import time
import uuid
from collections.abc import Mapping
from typing import Any, Final

import anywidget
import traitlets
from IPython import get_ipython
from IPython.display import display

from ...session.engine import Session
from ...views.bundle import script, stylesheet
from .state import LiveState

AFTER_S: Final = 1.0
"""Cells that take less time show nothing."""
PERIOD_S: Final = 0.5
CONTROL: Final = "notebook_prof_live"
"""The type of the page's messages on the control channel."""
_MIME: Final = "application/vnd.jupyter.widget-view+json"
_GONE: Final = {"text/plain": ""}


class LiveWidget(anywidget.AnyWidget):
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

    def _send(self, msg: Mapping[str, Any], buffers: Any = None) -> None:
        """Send, and forget the subshell of the page's last message: see `LinkedWidget`."""
        super()._send(msg, buffers)
        if self.comm is not None:
            getattr(self.comm, "__dict__", {}).pop("_reply_subshell_id", None)


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
                    display(_GONE, raw=True, display_id=self._uid, update=True)
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
