"""Makes loops of a cell tick, and its statements leave marks, without changing what the cell does.

Function bodies are left alone, except for ticking loops: they may be pickled, compiled, or run elsewhere.
"""

from __future__ import annotations

import ast
import copy
import itertools
import re
import warnings
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import CodeType
from typing import Any, Final, cast

from ..collectors.statements import AFTER, SHOWING
from ..session.ticks import NAME
from .loops import LOOPS, SCOPES, FoundLoop, Loop, counts_itself, find_loops
from .options import MagicOptions

_TICKS: Final = "notebook_prof.session.ticks"
# In another process, or without this package, a rewritten function must run as it was written. There the
# lookup returns nullcontext(token), which does nothing, or int(), which is false.
_FIND: Final = "getattr(__import__('sys').modules.get({module!r}), {name!r}, {instead})"
_NOTHING: Final = "__import__('contextlib').nullcontext"
# C functions only, so that an interrupt is raised in the user's statement
_MODULE: Final = "__import__('sys').modules[{name!r}]"
_JOURNAL: Final = _MODULE.format(name="notebook_prof.collectors.statements")
_MARK: Final = "{where}.note(({where}.now(), {line}))"
_MARKED_LOOP: Final = _MODULE.format(name=_TICKS) + ".marked_loop({token}, {line})"
_ENCLOSING: Final = (
    ast.If,
    ast.With,
    ast.AsyncWith,
    ast.Try,
    *([ast.TryStar] if hasattr(ast, "TryStar") else []),
)
_CHECKED: Final = "<rewritten cell>"
_APPENDABLE: Final = ("last_expr", "all", "none")
"""IPython's display modes that are unaffected by an extra statement at the end."""


def rewrite(
    tree: ast.Module,
    loops: Sequence[FoundLoop],
    *,
    stop_after: bool = False,
    marks: bool = True,
    interactivity: str = "last_expr",
    script: int = 0,
) -> ast.Module:
    """Return a copy of the cell that ticks and leaves marks, or the tree itself if that does not compile."""
    # In functions ``for …: BODY`` becomes ``for …: with ticker: BODY``: the iterable, ``else``, ``break``,
    # ``continue``, ``return``, ``await``, exceptions and line numbers stay as they were. Not ``try …
    # finally``: after it, a frame's ``f_lineno``, which IPython shows, is that of the ``finally``; ``with``
    # restores it. No name of ours is in the user's namespaces: see `session.ticks`.
    # Outside of functions, the loop and the loops around it exist twice: with ticks and marks, and as
    # written. If iterations turn out to be too short, the first form hands the rest over to the second. Marks
    # precede every top-level statement, the statements on the way to a ticking loop, and those in its body.
    # With `stop_after`, these loops and the loops around them in the same function are also left once the
    # window is recorded. `interactivity` is IPython's ``ast_node_interactivity``. `script` numbers a
    # script, whose lines do not belong to the cell. Nesting that is too deep does not compile.
    twin = copy.deepcopy(tree)
    originals, copies = list(ast.walk(tree)), list(ast.walk(twin))
    tokens = {id(copies[originals.index(one.node)]): one.token for one in loops}
    for node in copies:
        if id(node) in tokens:
            node.nbp_token = tokens[id(node)]  # type: ignore[attr-defined]  # copies of the node keep it
    twin.body = _Cell(stop_after, marks, script).whole(twin.body, interactivity)
    ast.fix_missing_locations(twin)
    try:
        with quietly(_CHECKED):
            compile(twin, _CHECKED, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError):
        return tree
    return twin


@contextmanager
def quietly(filename: str) -> Iterator[None]:
    """Suppress warnings about this file while it is compiled. They come from compiling the original."""
    # a filter for this file only, since other threads see it too; ``catch_warnings`` would replace theirs
    module = re.compile(re.escape(filename.removesuffix(".py")) + r"\Z")
    ours = ("ignore", None, Warning, module, 0)
    warnings.filters.insert(0, ours)  # type: ignore[attr-defined]  # typeshed has it as a sequence
    try:
        yield
    finally:
        with suppress(ValueError):
            warnings.filters.remove(ours)  # type: ignore[attr-defined]


class _Cell:
    def __init__(self, stop_after: bool, marks: bool, script: int) -> None:
        self._stop_after, self._marks, self._script = stop_after, marks, script

    def whole(self, body: list[ast.stmt], interactivity: str) -> list[ast.stmt]:
        """Return the statements of the cell."""
        last = len(body) - 1
        out: list[ast.stmt] = []
        for i, statement in enumerate(body):
            if is_future(statement):
                out.append(statement)
                continue
            shown = isinstance(statement, ast.Expr) and (i == last or interactivity == "all")
            out += self._mark(statement, 0)
            out += self._statement(self._with_inner_marks(statement, 0), 0)
            if shown and self._marks:
                _note_the_end(cast("ast.Expr", statement))
        if self._marks and body and not isinstance(body[-1], ast.Expr) and interactivity in _APPENDABLE:
            out += _mark(AFTER, body[-1].end_lineno or 1)
        return out

    def _mark(self, statement: ast.stmt, loops: int) -> list[ast.stmt]:
        # the decorators of a definition run first, in their own lines
        line = min(part.lineno for part in (statement, *getattr(statement, "decorator_list", ())))
        return _mark(line, line, self._name(loops - 1) if loops else _JOURNAL) if self._marks else []

    def _statement(self, statement: ast.stmt, loops: int) -> list[ast.stmt]:
        """Return the replacement of a statement that is outside functions and inside `loops` marked loops."""
        if isinstance(statement, LOOPS) and (
            _ticks_inside(statement) or (self._marks and _awaits(statement))
        ):
            return [self._doubled(statement, loops)]
        if _ticks_inside(statement) and isinstance(statement, _ENCLOSING):
            self._marked_lists(statement, loops)
            return [statement]
        if not _ticks_inside(statement, functions=True):
            return [statement]
        return _as_list(_Ticking(self._stop_after, loops).visit(statement))

    def _body(self, body: list[ast.stmt], loops: int) -> list[ast.stmt]:
        out: list[ast.stmt] = []
        for statement in body:
            ticks = _ticks_inside(statement)
            out += self._mark(statement, loops)
            out += self._statement(self._with_inner_marks(statement, loops), loops)
            if ticks and loops and self._stop_after:
                out += _leave(statement.end_lineno or 1)
        return out

    def _with_inner_marks(self, statement: ast.stmt, loops: int) -> ast.stmt:
        """Put marks in ``if``, ``with`` and ``try``; loops and functions are one statement."""
        if self._marks and isinstance(statement, _ENCLOSING) and not _ticks_inside(statement, functions=True):
            self._marked_lists(statement, loops)
        return statement

    def _marked_lists(self, statement: ast.stmt, loops: int) -> None:
        for holder in (statement, *getattr(statement, "handlers", ())):
            for name in ("body", "orelse", "finalbody"):
                if body := getattr(holder, name, None):
                    setattr(holder, name, self._body(body, loops))
        if isinstance(statement, ast.With | ast.AsyncWith):
            statement.body += self._mark(statement, loops)  # leaving the block takes time too

    def _doubled(self, loop: Loop, loops: int) -> ast.stmt:
        """Return a loop with ticks and marks, followed by the same loop without them."""
        # Testing a flag before each mark, instead of having a second form, would make short iterations 1.7 to
        # 2.3 times as long.
        line, end, name = loop.lineno, loop.end_lineno or loop.lineno, self._name(loops)
        token, marked = getattr(loop, "nbp_token", 0), -1 if self._script else loop.lineno
        remainder = _Ticking(self._stop_after, loops + 1).remainder_of(copy.deepcopy(loop))
        begin = _statements_at(f"{name} = {_MARKED_LOOP.format(token=token, line=marked)}", line)
        if not isinstance(loop, ast.While):
            iterable = loop.iter
            word = "iter" if isinstance(loop, ast.For) else "aiter"
            take = cast(
                "ast.Assign", _statements_at(f"{name}.items = __import__('builtins').{word}(0)", line)[0]
            )
            cast("ast.Call", take.value).args = [iterable]
            ast.copy_location(take.value, iterable)
            begin.append(take)
            for one in (loop, cast("ast.For", remainder)):
                one.iter = cast("ast.Expr", _statements_at(name, line)[0]).value
                for node in ast.walk(one.iter):
                    ast.copy_location(node, iterable)
        first = loop.body[0].lineno
        # on the head's line, because it also ends there, which must not count as another run of the first
        # statement
        ticking = cast("ast.With", _statements_at(f"with {name}: pass", line)[0])
        after = loop.body[-1].end_lineno or first
        ticking.body = self._body(loop.body, loops + 1)
        leave = _leave(first) if token and self._stop_after else []
        given_up = _statements_at(f"if {name}.fast:\n    {name}.leave()\n    break", after)
        loop.body = [*leave, ticking, *given_up]
        loop.orelse = self._body(loop.orelse, loops)
        going_on = cast("ast.If", _statements_at(f"if {name}.left: pass", end)[0])
        going_on.body = [remainder]
        whole = cast("ast.If", _statements_at("if True: pass", line)[0])
        whole.body = [*begin, loop, going_on, *_statements_at(f"{name}.items = None\ndel {name}", end)]
        return whole

    def _name(self, loops: int) -> str:
        """Return the ticker's name for a marked loop at this nesting depth."""
        return f"{NAME}.loop{loops}" + (f"_of{self._script}" if self._script else "")


class _Ticking(ast.NodeTransformer):
    """Makes found loops tick, without marks. `around` counts the enclosing loops in the same function."""

    def __init__(self, stop_after: bool, around: int = 0) -> None:
        self._stop_after, self._around = stop_after, around

    def remainder_of(self, loop: Loop) -> Loop:
        """Return the form of a loop that ticks too often, for its remaining iterations."""
        if hasattr(loop, "nbp_token"):
            loop.body = [*self._leave(loop.body[0].lineno), *loop.body]
        else:
            # inner loops still tick
            self.generic_visit(loop)
        return loop

    def visit(self, node: ast.AST) -> Any:
        """Rewrite loops that have a token."""
        around = self._around
        if isinstance(node, SCOPES):
            self._around = 0
        elif isinstance(node, LOOPS):
            self._around += 1
        if isinstance(node, LOOPS) and hasattr(node, "nbp_token"):
            made: Any = self._wrapped(node)
        else:
            self.generic_visit(node)
            made = node
        self._around = around
        if around and isinstance(node, LOOPS) and _ticks_inside(node):
            return [*_as_list(made), *self._leave(node.end_lineno or 1)]
        return made

    def _leave(self, line: int) -> list[ast.stmt]:
        return _leave(line) if self._stop_after else []

    def _wrapped(self, loop: Loop) -> list[ast.stmt]:
        token = getattr(loop, "nbp_token", 0)
        begin = _statements_at(_call("begin", token), loop.lineno)
        end = _statements_at(_call("end", token), loop.end_lineno or loop.lineno)
        ticking = cast("ast.With", _statements_at(f"with {_call('body', token)}: pass", loop.lineno)[0])
        ticking.body = loop.body
        loop.body = [*self._leave(loop.body[0].lineno), ticking]
        return [*begin, loop, *end]


def _call(name: str, token: int) -> str:
    return f"{_FIND.format(module=_TICKS, name=name, instead=_NOTHING)}({token})"


def _leave(line: int) -> list[ast.stmt]:
    return _statements_at(f"if {_FIND.format(module=_TICKS, name='past', instead='int')}(): break", line)


def _mark(line: int, at: int, where: str = _JOURNAL) -> list[ast.stmt]:
    return _statements_at(_MARK.format(where=where, line=line), at)


def mark_at(line: int, number: int, module: str) -> list[ast.stmt]:
    """Return a mark with this number, in a module, which needs no names in the user's namespace."""
    return _mark(number, line, _MODULE.format(name=module))


def _note_the_end(shown: ast.Expr) -> None:
    """Mark when the value of an expression is known, before it is displayed."""
    both = cast(
        "ast.Expr", _statements_at(f"(0, {_MARK.format(where=_JOURNAL, line=SHOWING)})[0]", shown.lineno)[0]
    ).value
    cast("ast.Tuple", cast("ast.Subscript", both).value).elts[0] = shown.value
    shown.value = ast.copy_location(both, shown.value)


def _ticks_inside(node: ast.AST, *, functions: bool = False) -> bool:
    """Return whether a statement is or contains a ticking loop; with `functions`, also inside functions."""
    if hasattr(node, "nbp_token"):
        return True
    if isinstance(node, SCOPES) and not functions:
        return False
    return any(_ticks_inside(child, functions=functions) for child in ast.iter_child_nodes(node))


def _awaits(node: ast.AST) -> bool:
    """Return whether a statement awaits outside functions. Samples do not show what it waits for."""
    if isinstance(node, ast.Await | ast.AsyncFor | ast.AsyncWith):
        return True
    return not isinstance(node, SCOPES) and any(map(_awaits, ast.iter_child_nodes(node)))


def is_future(node: ast.stmt) -> bool:
    """Return whether it is a ``from __future__ import``, which must stay first."""
    return isinstance(node, ast.ImportFrom) and node.module == "__future__"


def _as_list(made: Any) -> list[ast.stmt]:
    return made if isinstance(made, list) else [made]


def _statements_at(source: str, line: int) -> list[ast.stmt]:
    """Make statements with this line number."""
    statements = ast.parse(source).body
    for statement in statements:
        for node in ast.walk(statement):
            if isinstance(node, ast.expr | ast.stmt):
                node.lineno = node.end_lineno = line
                node.col_offset = node.end_col_offset = 0
    return statements


# Counts steps in loops of scripts that a profiled cell runs with ``%run``.

_scripts: Final = itertools.count(1)


class _Shell:
    """A stand-in for the shell whose `compile` returns `code`."""

    def __init__(self, shell: Any, code: CodeType) -> None:
        self._shell, self._code = shell, code

    def __getattr__(self, name: str) -> Any:
        return getattr(self._shell, name)

    def compile(self, source: bytes, filename: Any, mode: str) -> CodeType:
        """Return the prepared code. Compiles the source only for its warnings."""
        compile(source, filename, mode, dont_inherit=True)
        return self._code


def load_run(shell: Any) -> None:
    """Load the class that defines ``%run``. Recent versions of IPython load it on first use."""
    with suppress(KeyError):  # the shell has none
        shell.magics_manager.registry["ExecutionMagics"]


def tick_in_scripts(shell: Any, options: MagicOptions, places: dict[Hashable, str]) -> Callable[[], None]:
    """Let loops of scripts tick from now on; return a function that undoes this."""
    # Not if something else counts steps. `places` get the loops' places by token.
    magics = shell.magics_manager.registry.get("ExecutionMagics")
    counts = options.step_by in ("auto", "loop") and options.loop_line is None
    if not counts or magics is None or magics.default_runner is not None:
        return lambda: None

    def run(path: str, *namespaces: dict[str, Any], **more: Any) -> None:
        code = _ticking(path, options, namespaces[0], places)
        if code is None:
            shell.safe_execfile(path, *namespaces, **more)
        else:  # with `shell_futures`, it takes the shell's `compile`
            type(shell).safe_execfile(_Shell(shell, code), path, *namespaces, **more, shell_futures=True)

    def end() -> None:
        if magics.default_runner is run:
            magics.default_runner = None

    magics.default_runner = run
    return end


def _ticking(
    path: str, options: MagicOptions, namespace: dict[str, Any], places: dict[Hashable, str]
) -> CodeType | None:
    """Compile a script with step counting. None if it has no loops to count, or does not compile."""
    file = Path(path).expanduser().resolve()
    try:
        with quietly(str(file)):
            tree = ast.parse(file.read_bytes(), str(file))
            found = find_loops(tree, weak=options.takes_any_loop, namespace=namespace)
            if not found or counts_itself(tree, {}):
                return None
            made = rewrite(tree, found, stop_after=options.stop_after, marks=False, script=next(_scripts))
            code: CodeType = compile(made, str(file), "exec", dont_inherit=True)
    except Exception:  # running it as it is raises what it should
        return None
    for one in found:
        places[one.token] = f"the loop in line {one.line} of {file.name}: {one.text}"
    return code
