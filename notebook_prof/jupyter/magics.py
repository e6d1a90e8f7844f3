"""The line magics, and ``%%profile`` for a cell that cannot run natively."""

from __future__ import annotations

import ast
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from IPython.core.error import UsageError
from IPython.core.magic import (
    Magics,
    line_cell_magic,
    line_magic,
    magics_class,
    needs_local_scope,
    no_var_expand,
)

from ..errors import NotebookProfError, OptionError, nearest
from ..interrupts import DelayedInterrupt
from . import options
from .run import deliver, recorded

if TYPE_CHECKING:
    from ..comparison.comparison import Comparison
    from ..profiles.profile import Profile
    from ..runs.cell_history import CellHistory


class ShownAlready(Exception):
    """Ends an outer cell after an inner one has shown its error."""

    @classmethod
    def of(cls, error: BaseException | None) -> Exception:
        """Return one with the name of the error, which recordings and front-ends report."""
        return cls() if error is None else type(type(error).__name__, (cls,), {})()

    def _render_traceback_(self) -> list[str]:
        return []


@magics_class
class ProfileMagics(Magics):  # type: ignore[misc]
    """``%%profile`` and ``%profile``, ``%profile_open``, ``%profile_history`` and ``%profile_notebook``."""

    @no_var_expand  # type: ignore[untyped-decorator]
    @needs_local_scope  # type: ignore[untyped-decorator]
    @line_cell_magic  # type: ignore[untyped-decorator]
    def profile(self, line: str, cell: str | None = None, local_ns: dict[str, Any] | None = None) -> Any:
        """Record a cell or a statement."""
        # the docstring is replaced below by the text of the declared options
        if cell is None:
            return self._line(line, local_ns)
        try:
            options.parse(line)
        except OptionError as error:
            raise UsageError(str(error)) from None
        # the options are valid, but the line was not the first of a cell
        result = self.shell.run_cell(f"{options.MAGIC} {line}\n{cell}")
        if not result.success:
            raise ShownAlready.of(result.error_in_exec or result.error_before_exec)
        return None

    def _line(self, line: str, local_ns: dict[str, Any] | None) -> Any:
        try:
            head, statement = split_line(line)
            if not statement or head in ("-h", "--help"):
                print(options.help_text())  # noqa: T201  (the user asked for it)
                return None
            magic_options = options.parse(head, named=False)
        except OptionError as error:
            raise UsageError(str(error)) from None
        shell = self.shell
        tree = shell.transform_ast(shell.compile.ast_parse(shell.transform_cell(statement)))
        value = None
        with recorded(shell, magic_options, line):
            *before, last = tree.body or [ast.Pass()]
            if isinstance(last, ast.Expr):
                _execute(shell, before, local_ns)
                code = shell.compile(ast.Expression(last.value), "<profiled line>", "eval")
                value = eval(code, shell.user_ns, local_ns)
            else:
                _execute(shell, tree.body, local_ns)
        return value

    @line_magic  # type: ignore[untyped-decorator]
    def profile_open(self, line: str) -> None:
        """Open a recording, show it, and bind it to ``_profile`` and ``nbp.last``.

        ``%profile_open [--format NAME] PATH``

        PATH is a file or a folder in any format of ``nbp.list_formats()``, recognised by its content. Quotes
        are optional, even if it contains spaces. ``~`` is the home folder.
        """
        from ..profiles.files import open_profile

        path, format_name = split_path(line)
        try:
            profile = open_profile(_existing(path), format_name)
        except NotebookProfError as error:
            raise UsageError(f"{_OPEN}: {error}") from None
        except OSError as error:
            raise UsageError(f"{_OPEN}: {path!r} cannot be read: {error.strerror or error}") from None
        deliver(self.shell, profile)

    @line_magic  # type: ignore[untyped-decorator]
    def profile_history(self, line: str) -> CellHistory | Comparison | None:
        """Show how long the runs of a cell took, when that changed, and what changed in its source.

        ``%profile_history [RUN [RUN]]``

        RUN is the number of a run, its name, or the text of a cell; by default the cell recorded last. Two
        runs are compared, as ``nbp.compare(nbp.load(a), nbp.load(b))`` does. ``nbp.history()`` has the runs
        of the whole project as a table.
        """
        words = line.split()
        if words in (["-h"], ["--help"]):
            print(self.profile_history.__doc__)  # noqa: T201  (the user asked for it)
            return None
        # imported here, since otherwise `%load_ext` would take a fifth longer
        from ..comparison.comparison import compare
        from ..runs.cell_history import cell_history
        from ..runs.store import damaged_files
        from ..runs.table import load, open_store
        from ..runs.writing import missing

        try:
            if len(words) == 2:
                a, b = (load(word) for word in words)
                return compare(a, b, names=(f"run {words[0]}", f"run {words[1]}"))
            store = open_store()
            notes = [f"A damaged file was set aside: {path}." for path in damaged_files(store.folder)]
            if lacks := missing():
                notes.insert(0, f"{lacks[0].upper()}{lacks[1:]}.")
            return cell_history(store, line.strip(), tuple(notes))
        except NotebookProfError as error:
            raise UsageError(f"%profile_history: {error}") from None

    @line_magic  # type: ignore[untyped-decorator]
    def profile_notebook(self, line: str) -> Profile | None:
        """Watch every cell from now on: time, memory, CPU, statements; ≤ 3 ms per cell.

        ``%profile_notebook [off | show]``

        ``off`` ends the watch and removes its hooks. ``show`` displays the session so far, as does
        ``nbp.notebook()``. A cell with ``%%profile`` is also recorded in full.
        """
        # imported here, since it imports all analyses
        from ..cells.build import notebook
        from .notebook import events

        word = line.strip()
        if word in ("-h", "--help"):
            print(self.profile_notebook.__doc__)  # noqa: T201  (the user asked for it)
        elif word == "show":
            try:
                return notebook()
            except NotebookProfError as error:
                raise UsageError(f"{_NOTEBOOK}: {error}") from None
        elif word == "off":
            events.unregister(self.shell)
        elif word:
            raise UsageError(f"{_NOTEBOOK} takes nothing, off or show; got {word!r}")
        elif events.events_of(self.shell) is None:
            with DelayedInterrupt():
                events.register(self.shell)
            print(_STARTED)  # noqa: T201
        return None


ProfileMagics.profile.__doc__ = (
    "Profile a cell, or with %profile one line, and explore it in linked views.\n\n" + options.help_text()
)


def split_line(line: str) -> tuple[str, str]:
    """Split the line of ``%profile`` into its options and the statement after them."""
    takes_value = options.flags(named=False)
    statement, head = line.strip(), []
    while statement.startswith("-"):
        word, _, statement = statement.partition(" ")
        statement = statement.lstrip()
        head.append(word)
        if takes_value.get(word):
            value, _, statement = statement.partition(" ")
            statement = statement.lstrip()
            head.append(value)
        elif word.partition("=")[0] not in takes_value:
            break  # a wrong option, which parsing will name; or a statement such as -x
    return " ".join(head), statement


def _execute(shell: Any, body: list[ast.stmt], local_ns: dict[str, Any] | None) -> None:
    if body:
        exec(shell.compile(ast.Module(body, []), "<profiled line>", "exec"), shell.user_ns, local_ns)


_OPEN: Final = "%profile_open"
_FORMAT: Final = re.compile(r"\s*--format[ =]+(\S+)\s+(.*)|(.*?)\s+--format[ =]+(\S+)\s*", re.DOTALL)
_OPEN_USAGE: Final = f"{_OPEN} [--format NAME] PATH"


def split_path(line: str) -> tuple[str, str | None]:
    """Split the line into the path and the format, which is None if not given."""
    format_name: str | None = None
    path = line.strip()
    if match := _FORMAT.fullmatch(path):
        format_name, path = (match[1], match[2]) if match[1] else (match[4], match[3])
    path = path.strip()
    if len(path) > 1 and path[0] == path[-1] and path[0] in "\"'":
        path = path[1:-1]
    if not path or path.startswith("--"):
        raise UsageError(f"{_OPEN}: the path of a recording is missing: {_OPEN_USAGE}")
    return path, format_name


def _existing(text: str) -> Path:
    path = Path(text).expanduser()
    if path.exists():
        return path
    folder = next(parent for parent in path.absolute().parents if parent.is_dir())
    there = f"{str(folder)!r} is there"
    if folder == path.absolute().parent:
        names = sorted(os.listdir(folder))[:1000]
        close = nearest(path.name, names)
        there += f"; {close}" if close.startswith("did") else ", and contains nothing of a similar name"
    raise UsageError(f"{_OPEN}: there is no file or folder {text!r}: {there}")


_NOTEBOOK: Final = "%profile_notebook"
_STARTED: Final = (
    "notebook_prof watches every cell from now on. `%profile_notebook show`, or nbp.notebook(), shows what "
    "they took; `%profile_notebook off` ends it."
)
