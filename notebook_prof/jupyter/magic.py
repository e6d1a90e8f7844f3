"""The registered magics: ``%profile`` for a line, and the errors of a ``%%profile`` that cannot run
natively."""

from __future__ import annotations

import ast
from typing import Any

from IPython.core.error import UsageError
from IPython.core.magic import Magics, line_cell_magic, magics_class, needs_local_scope, no_var_expand

from ..errors import OptionError
from . import options
from .run import recorded


class ShownAlready(Exception):
    """Ends an outer cell after an inner one has shown its error."""

    def _render_traceback_(self) -> list[str]:
        return []


@magics_class
class ProfileMagics(Magics):  # type: ignore[misc]
    """``%%profile`` and ``%profile``."""

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
            raise ShownAlready
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


ProfileMagics.profile.__doc__ = (
    "Profile a cell, or with %profile one line, and explore it in linked views.\n\n" + options.help_text()
)


def split_line(line: str) -> tuple[str, str]:
    """Split the line of ``%profile`` into its options and the statement after them.

    >>> split_line("--steps 3:14 --quiet train(model, 'a  b')")
    ('--steps 3:14 --quiet', "train(model, 'a  b')")
    """
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
