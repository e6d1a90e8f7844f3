"""Sends the times of a watched notebook's cells to the editor extension."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

from ...analysis.notebook.cells import badge, badges
from ...cells.build import runs_table, saved_notebook
from ...cells.watch import CellRun, NotebookWatch
from ...views.bundle import script
from ..widget import QuietWidget

_AFTER_S: Final = 0.3
_OWN_SHARE: Final = 100


class Badges(QuietWidget):
    """A model without a view: the page passes its messages to the extension."""

    _esm = script("cells_widget")

    def __init__(self, watch: NotebookWatch) -> None:
        self._watch, self._told = watch, dict[str, dict[str, Any]]()
        self._loop = asyncio.get_running_loop()
        self._due = False
        self._pause_s = _AFTER_S
        super().__init__()
        self.on_msg(self._receive)

    def close(self) -> None:
        super().close()
        self.layout.close()

    def cell_ended(self, run: CellRun) -> None:
        """Send a cell's time at once, and what it made stale when the kernel is idle."""
        if run.cell:
            wall_ns = run.end_ns - run.begin_ns
            self._tell([badge(run.cell, run.number, wall_ns, run.kept_bytes, run.source)])
        if not self._due:
            self._due = True
            self._loop.call_soon_threadsafe(self._loop.call_later, self._pause_s, self._refresh)

    def _refresh(self) -> None:
        self._due = False
        if self.comm is None or not self._watch.runs:
            return
        began = time.perf_counter()
        self._tell(badges(runs_table(self._watch, saved_notebook())))
        # with thousands of cells this takes a while, and the next cell would wait for it
        self._pause_s = max(_AFTER_S, _OWN_SHARE * (time.perf_counter() - began))

    def _tell(self, rows: Sequence[dict[str, Any]]) -> None:
        new = {row["id"]: row for row in rows if self._told.get(row["id"]) != row}
        if new:
            self._told |= new
            self.send({"cells": list(new.values())})

    def _receive(self, _widget: Any, message: Mapping[str, Any], _buffers: Any) -> None:
        if message.get("t") == "cells":  # a page has opened
            self.send({"cells": list(self._told.values())})
