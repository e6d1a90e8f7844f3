"""Runs a ``%%profile`` cell natively: a pure line transformer, an AST transformer and two event handlers."""

from __future__ import annotations

import ast
import linecache
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from types import FrameType
from typing import Any, Final

from IPython.core.inputtransformer2 import cell_magic, leading_indent

from ..collectors.python.frames import MARKERS
from ..errors import OptionError
from ..interrupts import DelayedInterrupt
from ..session import current
from ..session.plan import EndOfWindow
from ..trace.source_lines import text_lines
from . import loops, options
from .loops import counts_itself
from .rewriting import is_future, rewrite

HELP: Final = [[options.MAGIC, "-h"], [options.MAGIC, "--help"]]
_CALL: Final = "__import__('notebook_prof.jupyter.run', None, None, ['{name}']).{name}({arguments})"


def strip_magic(lines: list[str]) -> list[str]:
    """Replace a first line ``%%profile …`` by a constant without effect, if its options are valid."""
    # IPython calls this several times per cell, also to check whether the cell is complete, so this has no
    # side effects. The constant keeps the line numbers, and `CellTransformer` recognises it. If the options
    # are invalid, the line stays, and the registered magic reports the error.
    if lines and lines[0].split() in HELP:
        return [f"{options.MAGIC[1:]} --help\n"]  # IPython refuses a cell magic without a body
    line = _options_of(lines[0]) if lines else None
    if line is None:
        return lines
    marker = f"{options.MAGIC} {line}".strip().encode()
    body = lines[1:]
    for i, text in enumerate(body):
        if text.strip():
            # IPython looks for a magic and for an indent only in the first line, which is now the marker
            first = leading_indent(body[i:])
            body = cell_magic(first) if first[0].startswith("%%") else [*body[:i], *first]
            break
    return [f"{marker!r}\n", *body]


class OneLine:
    """Treats a single line below ``%%profile`` as IPython treats a one-line cell: ``ls`` becomes ``%ls``."""

    def __init__(self, shell: Any) -> None:
        self._shell = shell

    def __call__(self, lines: list[str]) -> list[str]:
        """Transform a marked one-line cell; return any other unchanged."""
        if not lines or not lines[0].startswith(MARKERS):
            return lines
        blank = next((i for i, text in enumerate(lines[1:]) if text.strip()), 0) + 1
        body = "".join(lines[blank:])
        if len(body.splitlines()) != 1:
            return lines
        with self._shell.builtin_trap:
            body = self._shell.prefilter_manager.prefilter_lines(body) + "\n"
        return [*lines[:blank], *body.splitlines(keepends=True)]


def _options_of(first: str) -> str | None:
    """Return the options of a ``%%profile`` line; None if the line has no valid options."""
    word, _, line = first.strip().partition(" ")
    if word != options.MAGIC:
        return None
    try:
        options.parse(line)
    except OptionError:
        return None
    return line.strip()


class CellTransformer:
    """Inserts the start of the recording into a marked cell's tree, and makes its training loop tick."""

    def __init__(self, shell: Any) -> None:
        self._shell = shell
        # options whose loop is to be sought (or None), thread, and lines above the body, of a magic's body
        self._waiting: tuple[options.MagicOptions | None, int, int] | None = None

    def visit(self, tree: ast.AST) -> ast.AST:
        """Transform a marked cell; return any other tree unchanged. Raises only interrupts."""
        # copying may trigger a garbage collection, and an interrupt in its callbacks would be lost
        with DelayedInterrupt():
            return self._transformed(tree)

    def _transformed(self, tree: ast.AST) -> ast.AST:
        # IPython unregisters a transformer that raises, for good
        try:
            if not isinstance(tree, ast.Module):
                return tree
            line = _marked(tree)
            if line is None:
                return self._inner(tree)
            tree.body.pop(0)
            ast.increment_lineno(tree, _lines_above())
        except Exception:
            return tree
        try:
            return self._recording_tree(tree, line)
        except Exception as error:
            return _begin(tree, line, problem=f"the loops of the cell could not be read: {error}")

    def _inner(self, tree: ast.Module) -> ast.Module:
        """Transform the body of another magic under ``%%profile``, such as ``%%time``."""
        # its lines are those of the cell, and its loop may tick
        waiting, self._waiting = self._waiting, None
        session = current.running()
        if waiting is None or waiting[1] != threading.get_ident() or session is None:
            return tree
        if all(isinstance(node, ast.Pass) for node in tree.body):  # the setup of %%timeit, before its body
            self._waiting = waiting
            return tree
        magic_options, thread, above = waiting
        ast.increment_lineno(tree, above)
        frames = frames_of_cells()
        for frame in frames[:1]:
            name = str(frame.f_locals.get("cell_name"))
            session.add_file(name)  # IPython has compiled it under this name
            if len(frames) > 1 and name in linecache.cache:  # compiled as a cell of its own, as by %%capture
                size, time, text, full = linecache.cache[name]  # type: ignore[misc]
                linecache.cache[name] = size + above, time, ["\n"] * above + text, full
        if _is_magic(tree):
            self._waiting = magic_options, thread, _above_body(tree)
        if magic_options is None:
            return tree
        found_loops = self._loops(tree, magic_options)
        if not found_loops:
            return tree
        ticking = rewrite(tree, found_loops, stop_after=magic_options.stop_after, marks=False)
        return _insert(ticking, "announce", repr(_loop_arguments(found_loops)))

    def _loops(self, tree: ast.Module, magic_options: options.MagicOptions) -> list[loops.FoundLoop]:
        line, weak = magic_options.loop_line, magic_options.takes_any_loop
        return loops.find_loops(tree, line, weak=weak, namespace=self._shell.user_ns)

    def _recording_tree(self, tree: ast.Module, line: str) -> ast.Module:
        magic_options = options.parse(line)
        seeks, is_magic = magic_options.step_by in ("auto", "loop"), _is_magic(tree)
        self._waiting = None
        if is_magic:
            self._waiting = magic_options if seeks else None, threading.get_ident(), _above_body(tree)
        interactivity = str(self._shell.ast_node_interactivity)
        if magic_options.step_by in ("auto", "mark") and counts_itself(tree, self._shell.user_ns):
            return _begin(rewrite(tree, [], interactivity=interactivity), line, marked=True)
        found_loops = self._loops(tree, magic_options) if seeks else []
        if seeks and not found_loops and not is_magic and magic_options.loop_line is not None:
            return _begin(tree, line, refuse=_no_such_loop(tree, magic_options.loop_line))
        made = rewrite(tree, found_loops, stop_after=magic_options.stop_after, interactivity=interactivity)
        return _begin(made, line, loops=_loop_arguments(found_loops))


def _loop_arguments(found_loops: list[loops.FoundLoop]) -> list[tuple[int, int, str]]:
    return [(one.token, one.line, one.text) for one in found_loops]


def _no_such_loop(tree: ast.Module, line: int) -> str:
    there = ", ".join(map(str, loops.loop_lines(tree))) or "none"
    return f"{options.MAGIC}: no loop starts on line {line}; loops start on lines: {there}"


def _marked(tree: ast.AST) -> str | None:
    if not isinstance(tree, ast.Module) or not tree.body:
        return None
    first = tree.body[0]
    if not isinstance(first, ast.Expr) or not isinstance(first.value, ast.Constant):
        return None
    constant = first.value.value
    return _options_of(constant.decode()) if isinstance(constant, bytes) else None


def _lines_above() -> int:
    """Return how many lines of the running cell are above ``%%profile``, as ``%%time`` may be."""
    info = watch.info
    lines = text_lines(str(getattr(info, "raw_cell", "")).lstrip()) if info is not None else []
    return next((i for i, text in enumerate(lines) if text.startswith(options.MAGIC)), 0)


def _begin(tree: ast.Module, line: str, **settings: object) -> ast.Module:
    arguments = ", ".join([repr(line), *(f"{key}={value!r}" for key, value in settings.items())])
    return _insert(tree, "begin", arguments)


def _insert(tree: ast.Module, name: str, arguments: str) -> ast.Module:
    call = ast.parse(_CALL.format(name=name, arguments=arguments)).body
    # `from __future__` must stay first
    at = next((i for i, node in enumerate(tree.body) if not is_future(node)), len(tree.body))
    tree.body[at:at] = call
    return tree


def _above_body(tree: ast.Module) -> int:
    """Return how many lines are above the first line of a cell magic's body that is not blank."""
    body = ast.literal_eval(tree.body[0].value.args[-1])  # type: ignore[attr-defined]
    lines = text_lines(body)  # IPython drops leading blank lines
    blank = next((i for i, text in enumerate(lines) if text.strip()), 0)
    return tree.body[0].lineno + blank


def _is_magic(tree: ast.Module) -> bool:
    """Return whether this is the tree of a cell magic."""
    only = tree.body[0] if len(tree.body) == 1 else None
    return isinstance(only, ast.Expr) and "run_cell_magic(" in ast.unparse(only)


@dataclass(frozen=True)
class ResultUnknown:
    """Stands in for IPython's result of a cell that is still running, or that ended without an event."""

    runs: bool
    error_in_exec: BaseException | None = None
    error_before_exec: None = None


def frames_of_cells() -> list[FrameType]:
    """Return the frames in which IPython runs cells in this thread, innermost first."""
    # also that of the cell about to run
    found, frame = [], sys._getframe()
    while frame is not None:
        code = frame.f_code
        if code.co_name == "run_cell_async" and code.co_filename.endswith("interactiveshell.py"):
            found.append(frame)
        frame = frame.f_back  # type: ignore[assignment]
    return found


class CellWatch:
    """Tracks which cell runs in each thread, and calls back when one has ended."""

    # nested ``run_cell`` and cells of subshells fire the same events, so a cell is identified by its ``info``
    def __init__(self) -> None:
        self._running = threading.local()
        self._waiting: list[tuple[Any, Callable[[Any], None]]] = []

    def pre_run_cell(self, info: Any) -> None:
        """Remember the cell; IPython calls this."""
        running = len(frames_of_cells())
        # an interrupt prevented the event with which IPython reports their end
        while running and len(self._stack) >= running:
            self._tell(self._stack[-1], ResultUnknown(False, KeyboardInterrupt()))
            self._stack.pop()
        self._stack.append(info)

    def post_run_cell(self, result: Any) -> None:
        """Forget the cell and call back. Called by IPython."""
        info = getattr(result, "info", None)
        self._tell(info, result)  # call back first: if an interrupt prevents the rest, the next cell does it
        stack = self._stack
        if any(waiting is info for waiting in stack):
            while stack.pop() is not info:
                pass

    def end_all(self) -> bool:
        """Call back for all running cells as if they had ended. Returns whether there was a callback."""
        waiting = list(self._waiting)
        for info, _ in waiting:
            self._tell(info, ResultUnknown(True))
        return bool(waiting)

    @property
    def info(self) -> Any:
        """The innermost running cell in this thread; None if there is none."""
        return self._stack[-1] if self._stack else None

    def when_done(self, info: Any, callback: Callable[[Any], None]) -> None:
        """Call back once with the result of this cell."""
        self._waiting.append((info, callback))

    def _tell(self, info: Any, result: Any) -> None:
        for entry in [entry for entry in self._waiting if entry[0] is info]:
            ended = False
            try:
                entry[1](result)
                ended = True
            finally:  # after an interrupt, the next cell ends a recording that is still running
                if ended or current.running() is None:
                    self._waiting.remove(entry)

    @property
    def _stack(self) -> list[Any]:
        if not hasattr(self._running, "stack"):
            self._running.stack = []
        return self._running.stack  # type: ignore[no-any-return]


watch: Final = CellWatch()
"""The only watch, since a process has one shell."""


def current_cell(shell: Any) -> str:
    """Return the id of the running cell, ``cellId`` in requests of JupyterLab and Notebook, or ""."""
    kernel = getattr(shell, "kernel", None)
    try:
        parent = kernel.get_parent("shell") if kernel is not None else {}
    except (AttributeError, LookupError, TypeError):
        return ""
    return str((parent.get("metadata") or {}).get("cellId") or "")


def when_failing(shell: Any) -> tuple[list[tuple[int, BaseException | None]], Callable[[], None]]:
    """Record when this thread shows a traceback, and of which exception. Also returns how to undo this."""
    # The cell has ended by then. If the exception's `__str__` raises, IPython does not report the end.
    noted: list[tuple[int, BaseException | None]] = []
    can_show = True
    me, show, own = threading.get_ident(), shell.showtraceback, "showtraceback" in vars(shell)

    def showtraceback(*args: Any, **options: Any) -> Any:
        nonlocal can_show
        if threading.get_ident() == me and can_show:
            noted.append((time.time_ns(), sys.exc_info()[1]))
        try:
            return show(*args, **options)
        except BaseException:
            can_show = False  # next, IPython shows the exception that was raised here
            raise

    shell.showtraceback = showtraceback

    def undo() -> None:
        if vars(shell).get("showtraceback") is showtraceback:
            if own:
                shell.showtraceback = show
            else:
                del shell.showtraceback

    return noted, undo


def let_leave(shell: Any) -> Callable[[], None]:
    """Let `EndOfWindow` end the cell without a traceback. Returns a function that undoes this."""
    before = shell.custom_exceptions, shell.CustomTB
    shell.set_custom_exc((EndOfWindow,), lambda *_, **__: None)

    def restore() -> None:
        shell.custom_exceptions, shell.CustomTB = before

    return restore
