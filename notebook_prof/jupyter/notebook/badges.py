"""Tells the front-end what each cell took, for a badge beside it."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, Final

from ...cells.watch import CellRun, NotebookWatch
from ...units import format_bytes, format_ns

TARGET: Final = "notebook_prof.badges"
LEAST_BYTES: Final = 32 << 20


class Badges:
    """Sends a message for each cell to the extension of JupyterLab and Notebook, if one answers."""

    def __init__(self, shell: Any, watch: NotebookWatch) -> None:
        self._watch = watch
        self._comm: Any = None
        if getattr(shell, "kernel", None) is not None:
            with suppress(Exception):  # a front-end without comms
                from comm import create_comm

                self._comm = create_comm(target_name=TARGET, data={"version": 1})

    def tell(self, run: CellRun) -> None:
        """Send what a cell took."""
        if self._comm is None or not run.cell:
            return
        kept = f"+{format_bytes(run.kept_bytes)}" if run.kept_bytes >= LEAST_BYTES else ""
        data = {
            "cell": run.cell,
            "source": run.source,
            "time": format_ns(run.end_ns - run.begin_ns),
            "kept": kept,
        }
        with suppress(Exception):
            self._comm.send(data | {"run": run.run})

    def close(self) -> None:
        """Remove the badges."""
        comm, self._comm = self._comm, None
        if comm is not None:
            with suppress(Exception):
                comm.close()
