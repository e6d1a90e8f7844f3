"""Runs a notebook with nbclient in a fresh kernel that watches every cell."""

from __future__ import annotations

import argparse
import ast
import asyncio
import contextlib
import keyword
import math
import os
import re
import shlex
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any, Final

from tqdm import tqdm

from ..errors import FormatError, HistoryError, NotebookProfError, OptionError
from ..optional import require
from ..profiles.files import open_profile
from ..runs import writing
from ..runs.notebook_cells import last_run_ns, remember_cells
from ..units import format_ns
from .expect import FAILED, finish

_CALL: Final = "__import__('notebook_prof.jupyter.notebook.events', None, None, ['begin']).{call}"
_PURPOSE: Final = "notebook-prof run"
_WAIT_S: Final = 60.0
_SAVES_S: Final = 1.0
_SAVES_SHARE: Final = 0.02
_DIED: Final = "the kernel died"
_ANSI: Final = re.compile(r"\x1b\[[0-9;]*m")


def run_notebook(options: argparse.Namespace) -> int:
    """Run the notebook; returns the exit code."""
    nbformat = require("nbformat", extra="notebook", purpose=_PURPOSE)
    book = _read(nbformat, options.file)
    code = [cell for cell in book.cells if cell.cell_type == "code"]
    full = [_numbered(code, wanted) for wanted in options.full]
    _inject(nbformat, book, options.parameter)
    with tempfile.TemporaryDirectory() as folder:
        saved = os.path.join(folder, "run.nbprof")
        recordings = _paths(options, code, full)
        error = _execute(book, options, saved, recordings)
        if options.no_source:
            _remove_source(recordings.values())
        if options.output:
            nbformat.write(book, options.output)
        if not os.path.exists(saved):
            sys.stderr.write(f"notebook-prof: nothing was recorded: {error}\n")
            return FAILED
        profile = open_profile(saved)
        profile.trace  # noqa: B018  (read before the folder goes)
        source = "\n".join(cell.source for cell in code)
        writing.remember(profile, source=source, name=Path(options.file).stem, failed=bool(error))()
        outcome = finish(profile, options)
        writing.wait(_WAIT_S)
        try:
            remember_cells(profile, os.path.abspath(options.file))
        except HistoryError as unwritable:
            sys.stderr.write(f"notebook-prof: {unwritable}\n")
    if error:
        sys.stderr.write(f"notebook-prof: {error}\n")
    return FAILED if error else outcome


def _read(nbformat: Any, path: str) -> Any:
    try:
        book = nbformat.read(path, 4)
        nbformat.validate(book)
    except FileNotFoundError:
        raise
    except Exception as error:
        first = (str(error).splitlines() or [type(error).__name__])[0][:100]
        raise FormatError(f"{path} is not a notebook that Jupyter can read: {first}") from None
    return book


def _numbered(code: list[Any], wanted: str) -> int:
    """Return the index, among the code cells, of ``7``, ``cell 7`` or a text in it."""
    word = wanted.removeprefix("cell").strip()
    if word.isdecimal() and 0 < int(word) <= len(code):
        return int(word) - 1
    found = [i for i, cell in enumerate(code) if wanted in cell.metadata.get("tags", ())]
    found = found or [i for i, cell in enumerate(code) if wanted in cell.source]
    if len(found) != 1:
        raise OptionError(f"--full {wanted!r} names {len(found)} of {len(code)} code cells; give its number")
    return found[0]


def _inject(nbformat: Any, book: Any, parameters: list[list[str]]) -> None:
    """Insert a cell with the parameters after the cell tagged ``parameters``, or at the top."""
    if not parameters:
        return
    for name, _ in parameters:
        if not name.isidentifier() or keyword.iskeyword(name):
            raise OptionError(f"-p {name}: the name of a parameter must be a Python name")
    lines = ["# Parameters", *(f"{name} = {_value(value)!r}" for name, value in parameters)]
    cell = nbformat.v4.new_code_cell("\n".join(lines), metadata={"tags": ["injected-parameters"]})
    at = next((i + 1 for i, one in enumerate(book.cells) if "parameters" in one.metadata.get("tags", ())), 0)
    if book.nbformat_minor < 5:
        cell.pop("id", None)
    book.cells.insert(at, cell)


def _value(text: str) -> Any:
    """Return a parameter as a number, bool or None if it is one, otherwise as text."""
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return {"true": True, "false": False}.get(text, text)
    is_number = isinstance(value, int | float) and math.isfinite(value)
    return value if is_number or value is None else text


def _execute(book: Any, options: argparse.Namespace, saved: str, full: dict[int, str]) -> str:
    """Run the cells; return why the run ended early, or an empty text."""
    nbclient: Any = require("nbclient", extra="notebook", purpose=_PURPOSE)
    from jupyter_client.kernelspec import NoSuchKernel
    from jupyter_core.utils import ensure_event_loop, run_sync

    path = os.path.abspath(options.file)
    folder = os.path.dirname(path)
    named = {"kernel_name": options.kernel} if options.kernel else {}
    # without the interrupt, nbclient leaves a reader of the kernel's messages behind
    client = nbclient.NotebookClient(
        book,
        timeout=options.timeout,
        interrupt_on_timeout=True,
        resources={"metadata": {"path": folder}},
        **named,
    )
    client.on_cell_start = client.on_cell_complete = None
    code = [(i, cell) for i, cell in enumerate(book.cells) if cell.cell_type == "code"]
    try:
        with interrupts_between_steps(), client.setup_kernel(env={**os.environ, "JPY_SESSION_NAME": path}):
            _ask(client, "begin()")
            saves = _Saves(client, code, saved)
            with _interrupts(client) as interrupts:
                error = _run_cells(client, path, code, full, nbclient.exceptions, interrupts, saves)
            if not error.startswith(_DIED):
                saves.save("finish")
            return error
    except KeyboardInterrupt:
        if client.km is not None and client.km.has_kernel:  # nbclient leaves a kernel that is just starting
            for task in asyncio.all_tasks(ensure_event_loop()):
                task.cancel()
            run_sync(client.km.shutdown_kernel)(now=True)
        raise
    except NoSuchKernel as missing:
        raise OptionError(
            f"there is no kernel {missing.name!r} here: `jupyter kernelspec list` lists those available, and "
            "--kernel chooses one"
        ) from None


def _paths(options: argparse.Namespace, code: list[Any], full: list[int]) -> dict[int, str]:
    """Return the paths of the cells' recordings, by the id of the cell object."""
    base = options.save or options.output or options.file
    stem = str(Path(base).absolute().with_suffix(""))
    return {id(code[number]): f"{stem}.cell{number + 1}.nbprof" for number in full}


def _remove_source(paths: Iterable[str]) -> None:
    """Rewrite recordings of cells without the source of the cells."""
    for path in filter(os.path.exists, paths):
        with tempfile.TemporaryDirectory(dir=os.path.dirname(path)) as folder:
            redacted = os.path.join(folder, os.path.basename(path))
            open_profile(path).save(redacted, source=False)
            shutil.rmtree(path) if os.path.isdir(path) else os.remove(path)
            os.replace(redacted, path)


@contextlib.contextmanager
def interrupts_between_steps() -> Iterator[None]:
    """Let Ctrl-C end the event loop between two steps of its tasks."""

    # An interrupt inside the step that starts the kernel's process would leave it running, since no variable
    # holds it yet.
    def interrupt(number: int, frame: FrameType | None) -> None:
        try:
            asyncio.get_running_loop().call_soon_threadsafe(signal.default_int_handler, number, frame)
        except RuntimeError:  # no loop is running
            signal.default_int_handler(number, frame)

    before = signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextlib.contextmanager
def _interrupts(client: Any) -> Iterator[list[int]]:
    """Pass Ctrl-C to the cell that runs, and note it; a second one ends the command."""
    noted: list[int] = []

    def interrupt(number: int, _frame: object) -> None:
        noted.append(number)
        signal.signal(number, before)
        with contextlib.suppress(RuntimeError):  # between two cells
            loop = asyncio.get_running_loop()
            loop.call_soon_threadsafe(lambda: loop.create_task(client.km.interrupt_kernel()))

    before = signal.signal(signal.SIGINT, interrupt)
    try:
        yield noted
    finally:
        signal.signal(signal.SIGINT, before)


class _Saves:
    """Saves the session between cells, because a kernel that dies loses whatever is not saved."""

    def __init__(self, client: Any, code: list[tuple[int, Any]], path: str) -> None:
        self._client, self._code, self._path = client, code, path
        self._begun, self._spent_s, self._last_s = time.monotonic(), 0.0, 0.0

    def save_if_cheap(self) -> None:
        """Save, unless saving would exceed a second plus 2 % of the elapsed time."""
        if self._spent_s + self._last_s <= _SAVES_S + _SAVES_SHARE * (time.monotonic() - self._begun):
            begun = time.monotonic()
            with contextlib.suppress(NotebookProfError):
                self.save("save")
            self._last_s = time.monotonic() - begun
            self._spent_s += self._last_s

    def save(self, how: str) -> None:
        """Call `save` or `finish` in the kernel."""
        ids = {cell.execution_count: cell.get("id", "") for _, cell in self._code if cell.execution_count}
        _ask(self._client, f"{how}({self._path!r}, {ids!r})")


def _run_cells(
    client: Any,
    path: str,
    code: list[tuple[int, Any]],
    full: dict[int, str],
    errors: Any,
    interrupts: list[int],
    saves: _Saves,
) -> str:
    bar = tqdm(code, unit="cell", disable=None, file=sys.stderr)
    with contextlib.suppress(HistoryError):
        if (last_ns := last_run_ns(path)) > 0:
            bar.set_postfix_str(f"the last run took {format_ns(last_ns)}")
    for number, (index, cell) in enumerate(bar, 1):
        source, where = cell.source, f"cell {number} of {len(code)}"
        if id(cell) in full and not source.lstrip().startswith("%%"):
            cell.source = f"%%profile --quiet --save {shlex.quote(full[id(cell)])}\n{source}"
        try:
            if number > 1:
                saves.save_if_cheap()
            client.execute_cell(cell, index)
        except errors.DeadKernelError:
            return f"{_DIED} in {where}"
        except errors.CellExecutionError as error:
            last = [line for line in _ANSI.sub("", str(error)).splitlines() if line.strip()][-1:]
            return f"{where} failed: {''.join(last)[:200].rstrip(': ')}"
        finally:
            cell.source = source
        if interrupts:
            return f"interrupted in {where}"
    return ""


def _ask(client: Any, call: str) -> None:
    """Run one of our calls in the kernel, invisibly to the notebook."""
    from jupyter_core.utils import run_sync

    ask = run_sync(client.kc.execute_interactive)
    answer = ask(_CALL.format(call=call), silent=True, store_history=False, allow_stdin=False)["content"]
    if answer["status"] != "ok":
        raise NotebookProfError(
            f"notebook_prof does not run in the kernel of this notebook ({answer.get('ename')}: "
            f"{answer.get('evalue')}): install it there"
        )
