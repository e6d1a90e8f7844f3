"""Reports the cells of a notebook to its watch, by IPython's events."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from IPython import get_ipython

from ...cells.build import build, latest, remember
from ...cells.watch import CellRun, NotebookWatch, mark_of
from ...collectors import statements
from ...interrupts import DelayedInterrupt
from ..cell import current_cell, frames_of_cells, watch
from ..rewriting import is_future, mark_at

if TYPE_CHECKING:
    from .badges import Badges

_MOST_MARKS: Final = 10_000
_OURS: Final = ("#", "%profile_notebook", "%load_ext", "import notebook_prof")


class CellEvents:
    """Notifies the watch when cells begin and end, and marks their statements."""

    def __init__(self, shell: Any) -> None:
        badges = _badges(shell)  # imported here, so that the first cell does not pay for it
        self.watch = NotebookWatch(lambda: shell.user_ns)
        self._shell = shell
        self._badges = None if badges is None else badges(self.watch)
        self._infos: list[tuple[Any, CellRun]] = []  # running cells, identified by IPython's info

    def pre_run_cell(self, info: Any) -> None:
        """Begin a cell; IPython calls this."""
        if self.watch.is_of_parent:
            return
        with DelayedInterrupt():
            running = self.watch.current
            if running is not None:
                if len(frames_of_cells()) > 1:  # the running cell runs this one
                    return
                self.watch.end(running, "KeyboardInterrupt")  # it kept IPython from firing the end event
            # IPython 9.16 counts before this event, older ones after the cell; `visit` and the end know
            number = int(self._shell.execution_count) if info.store_history else 0
            if _only_ours(str(info.raw_cell)):
                return
            run = self.watch.begin(str(info.raw_cell), number, current_cell(self._shell))
            self._infos = [*(one for one in self._infos if not one[1].end_ns), (info, run)]

    def post_run_cell(self, result: Any) -> None:
        """End a cell; IPython calls this."""
        if self.watch.is_of_parent:
            return
        with DelayedInterrupt():
            info = getattr(result, "info", None)
            run = next((run for one, run in self._infos if one is info), None)
            if run is None or run.end_ns:
                return
            error = result.error_in_exec or result.error_before_exec
            run.number = (result.execution_count or run.number) if run.number else 0
            recorded = statements.running()
            if recorded is not None:
                run.statements = _of_recording(recorded, run)
            name = "" if error is None else type.__dict__["__name__"].__get__(type(error))
            self.watch.end(run, name, full=recorded is not None)
            if self._badges is not None:
                self._badges.cell_ended(run)

    def close(self) -> None:
        """End the watch and remove the badges."""
        self.watch.stop()
        if self._badges is not None:
            self._badges.close()

    def visit(self, tree: ast.AST) -> ast.AST:
        """Mark the statements of the starting cell; IPython calls this."""
        try:
            run = self.watch.current
            if run is None or run.marked or not isinstance(tree, ast.Module) or self.watch.is_of_parent:
                return tree
            run.marked = True
            frames = frames_of_cells()
            for known in (frame.f_locals for frame in frames[:1]):
                run.files = (str(known.get("cell_name")),)
                run.number = known.get("execution_count", run.number) if run.number else 0
            run.lines = frozenset(node.lineno for node in tree.body)
            run.first = min(run.lines, default=0)
            if not run.source.lstrip().startswith("%%profile"):
                tree.body = marked(tree.body, run.run)
        except Exception as error:  # IPython unregisters a transformer that raises, for good
            self.watch.failures.append(f"{type(error).__name__}: {error}")
        return tree


def _badges(shell: Any) -> type[Badges] | None:
    """Return the class that sends cells to the front-end, if that sends us their ids."""
    if not current_cell(shell):
        return None
    from .badges import Badges  # loads ipywidgets

    return Badges


def _only_ours(source: str) -> bool:
    """Return whether a cell does nothing but start, show or end the watch."""
    lines = [line.strip() for line in source.splitlines()]
    return all(not line or line.startswith(_OURS) for line in lines)


def marked(body: list[ast.stmt], run: int) -> list[ast.stmt]:
    """Return the statements with a mark before each except the first."""
    # The displayed result does not change: the user's last expression stays last, and a mark evaluates to
    # None, which no interactivity displays.
    made: list[ast.stmt] = []
    for i, node in enumerate(body):
        if i and not is_future(node):  # the first one begins with the cell
            line = min(part.lineno for part in (node, *getattr(node, "decorator_list", ())))
            made += mark_at(line, mark_of(run, line), NotebookWatch.__module__)
        made.append(node)
    return made


def _of_recording(recorded: statements.Marks, run: CellRun) -> Any:
    """Return when the statements at the top level of a recorded cell began."""
    ts, line = recorded.table()
    kept = [i for i, one in enumerate(line.tolist()) if one in run.lines][:_MOST_MARKS]
    return np.stack([ts[kept], line[kept]], axis=1)


def events_of(shell: Any) -> CellEvents | None:
    """Return the object that watches a shell's cells; None without one."""
    return next((one for one in shell.ast_transformers if isinstance(one, CellEvents)), None)


def register(shell: Any) -> None:
    """Start watching the cells of a shell."""
    events = CellEvents(shell)
    remember(events.watch)
    shell.ast_transformers.append(events)
    shell.events.register("pre_run_cell", events.pre_run_cell)
    # first, so that a cell does not last until `%%profile` has shown it
    shell.events.callbacks["post_run_cell"].insert(0, events.post_run_cell)
    if (info := watch.info) is not None:  # the rest of the running cell
        events.pre_run_cell(info)
        if (run := events.watch.current) is not None:
            run.marked = True


def unregister(shell: Any) -> None:
    """End the watch and remove its hooks. Does nothing without a watch."""
    events = events_of(shell)
    if events is None:
        return
    with DelayedInterrupt():
        shell.ast_transformers.remove(events)
        shell.events.unregister("pre_run_cell", events.pre_run_cell)
        shell.events.unregister("post_run_cell", events.post_run_cell)
        events.close()


# What ``notebook-prof run`` calls in the kernel of a notebook.


def begin() -> None:
    """Watch every cell from now on."""
    shell = get_ipython()
    # not by IPython's manager, or a `%load_ext` of the notebook would print that it is loaded already
    import_module("notebook_prof.jupyter.extension").load(shell)
    register(shell)


def save(path: str, ids: Mapping[int, str]) -> None:
    """Save the session so far. `ids` has the ids of cells by execution count."""
    watch = latest()  # also of a watch that a cell has ended
    assert watch is not None
    for run in watch.runs:
        run.cell = run.cell or ids.get(run.number, "")
    build(watch).save(path)


def finish(path: str, ids: Mapping[int, str]) -> None:
    """End the watch, and save the session."""
    unregister(get_ipython())
    save(path, ids)
