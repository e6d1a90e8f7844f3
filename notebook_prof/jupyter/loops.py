"""Find the training loop in a cell's source and let its body end a step, without changing what it does."""

from __future__ import annotations

import ast
import copy
import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, cast

Loop = ast.For | ast.AsyncFor | ast.While
_LOOPS: Final = (ast.For, ast.AsyncFor, ast.While)
_FUNCTIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef)
_SCOPES: Final = (*_FUNCTIONS, ast.ClassDef, ast.Lambda)

_SIGNS: Final = {
    "backward": 4,
    "step": 3,
    "train_step": 3,
    "training_step": 3,
    "train_on_batch": 3,
    "fit_batch": 3,
    "minimize": 3,
    "apply_gradients": 3,
    "zero_grad": 2,
}
_OTHER_STEPPERS: Final = ("sched", "prof", "lr_", "env", "nbp")
_BATCHES: Final = re.compile(r"loader|batch|dataset|(\b|_)dl\b", re.IGNORECASE)
TICKER: Final = "__nbp__"
_TICKS: Final = "notebook_prof.session.ticks"
# In another process, or without the package, a rewritten function must run as it was written: then the
# look-up gives nullcontext(token), which does nothing, or int(), which is false.
_FIND: Final = "getattr(__import__('sys').modules.get({module!r}), {name!r}, {instead})"
_NOTHING: Final = "__import__('contextlib').nullcontext"

_tokens = itertools.count(1)


@dataclass(frozen=True, slots=True)
class FoundLoop:
    """The loop that counts steps: where it stands, what its head says, and the number it goes by.

    ``token`` is negative for a loop without any sign of training.
    """

    node: Loop
    token: int

    @property
    def line(self) -> int:
        """Line in the cell, from 1."""
        return self.node.lineno

    @property
    def text(self) -> str:
        """Its head, as in ``for x, y in loader``."""
        return head(self.node)


def head(loop: Loop) -> str:
    """Source of a loop's head.

    Examples
    --------
    >>> head(ast.parse("for x in range( 3 ):\\n    pass").body[0])
    'for x in range(3)'
    """
    if isinstance(loop, ast.While):
        return f"while {ast.unparse(loop.test)}"
    word = "async for" if isinstance(loop, ast.AsyncFor) else "for"
    # unparse writes `for (x, y) in …`
    several = loop.target.elts if isinstance(loop.target, ast.Tuple) else [loop.target]
    return f"{word} {', '.join(map(ast.unparse, several))} in {ast.unparse(loop.iter)}"


def find_loop(tree: ast.Module, line: int | None = None, *, weak: bool = False) -> FoundLoop | None:
    """Choose the loop whose iterations are the steps.

    Parameters
    ----------
    tree : ast.Module
        The cell.
    line : int, optional
        Take the loop that starts on this line, whatever it does.
    weak : bool
        Without a sign of training anywhere, take the outermost loop of the cell itself.

    Returns
    -------
    FoundLoop or None

    Notes
    -----
    Calls directly in the body give points (``backward`` 4, ``.step`` of what is not a scheduler 3, …), an
    iterable named like a loader or a target named batch 2, an epoch -1. The most points win, then the
    outermost, then the first.

    Examples
    --------
    >>> find_loop(ast.parse("for x, y in loader:\\n    loss(x, y).backward()")).text
    'for x, y in loader'
    """
    loops = [(_points(loop), -depth, not inside, -loop.lineno, loop) for loop, depth, inside in _loops(tree)]
    if line is not None:
        chosen = [entry for entry in loops if entry[-1].lineno == line]
        sign = 1
    elif any(entry[0] > 0 for entry in loops):
        chosen, sign = loops, 1
    else:
        chosen, sign = [entry for entry in loops if weak and entry[2]], -1
    if not chosen:
        return None
    return FoundLoop(max(chosen, key=lambda entry: entry[:4])[-1], sign * next(_tokens))


def loop_lines(tree: ast.Module) -> list[int]:
    """Lines on which the cell's loops start, ascending."""
    return sorted({loop.lineno for loop, _, _ in _loops(tree)})


def rewrite(tree: ast.Module, found: FoundLoop, *, stop_after: bool = False) -> ast.Module:
    """Return a copy of the cell in which every iteration of the loop ends a step.

    ``for …: BODY`` becomes ``for …: with ticker: BODY``: the iterable, ``else``, ``break``, ``continue``,
    ``return``, ``await``, exceptions and line numbers stay as they were. (Not ``try … finally``: after it, a
    frame's ``f_lineno``, which IPython shows, is that of the ``finally``. ``with`` restores it.) If a loop
    outside of functions fails, the name `TICKER` stays in its namespace.

    Parameters
    ----------
    stop_after : bool
        Also leave the loop, and the loops around it in the same function, when the window is recorded.

    Returns
    -------
    ast.Module
        The tree itself, unchanged, if the result would not compile (too deep a nesting).
    """
    where = list(ast.walk(tree)).index(found.node)
    twin = copy.deepcopy(tree)
    target = list(ast.walk(twin))[where]
    rewriter = _Rewriter(cast("Loop", target), _loops_around(twin, target), found.token, stop_after)
    twin = cast("ast.Module", ast.fix_missing_locations(rewriter.visit(twin)))
    try:
        compile(twin, "<rewritten cell>", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError):
        return tree
    return twin


class _Rewriter(ast.NodeTransformer):
    def __init__(self, target: Loop, around: list[ast.AST], token: int, stop_after: bool) -> None:
        self._target, self._around, self._token, self._stop_after = target, around, token, stop_after

    def visit(self, node: ast.AST) -> Any:
        if node is self._target:
            line = self._target.end_lineno or 1
            return [*self._wrapped(self._target), *(self._leave(line) if self._around else ())]
        self.generic_visit(node)
        # the outermost loop around has no loop to leave
        if any(node is loop for loop in self._around[1:]):
            return [node, *self._leave(cast("Loop", node).end_lineno or 1)]
        return node

    def _leave(self, line: int) -> list[ast.stmt]:
        if not self._stop_after:
            return []
        return _at(f"if {_FIND.format(module=_TICKS, name='past', instead='int')}(): break", line)

    def _wrapped(self, loop: Loop) -> list[ast.stmt]:
        find = _FIND.format(module=_TICKS, name="loop", instead=_NOTHING)
        begin = _at(f"{TICKER} = {find}({self._token})", loop.lineno)
        end = _at(f"del {TICKER}", loop.end_lineno or loop.lineno)
        ticking = cast("ast.With", _at(f"with {TICKER}: pass", loop.body[0].lineno)[0])
        ticking.body = loop.body
        loop.body = [*self._leave(loop.body[0].lineno), ticking]
        return [*begin, loop, *end]


def _loops_around(tree: ast.AST, target: ast.AST) -> list[ast.AST]:
    """Loops that hold the target in the same function, outermost first."""
    path: list[ast.AST] = []

    def descend(node: ast.AST) -> bool:
        if node is target:
            return True
        path.append(node)
        if any(descend(child) for child in ast.iter_child_nodes(node)):
            return True
        path.pop()
        return False

    descend(tree)
    scopes = [i for i, node in enumerate(path) if isinstance(node, _SCOPES)]
    return [node for node in path[scopes[-1] if scopes else 0 :] if isinstance(node, _LOOPS)]


def _at(source: str, line: int) -> list[ast.stmt]:
    """Statements that claim to stand on this line."""
    statements = ast.parse(source).body
    for statement in statements:
        for node in ast.walk(statement):
            if isinstance(node, ast.expr | ast.stmt):
                node.lineno = node.end_lineno = line
                node.col_offset = node.end_col_offset = 0
    return statements


def _loops(tree: ast.AST) -> Iterator[tuple[Loop, int, bool]]:
    """Every loop with its depth among loops and whether it stands in a function."""
    waiting: list[tuple[ast.AST, int, bool]] = [(tree, 0, False)]
    while waiting:
        node, depth, inside = waiting.pop()
        for child in ast.iter_child_nodes(node):
            if isinstance(child, _LOOPS):
                yield child, depth, inside
            deeper = depth + isinstance(child, _LOOPS)
            waiting.append((child, deeper, inside or isinstance(child, _FUNCTIONS)))


def _points(loop: Loop) -> int:
    points = sum(_call_points(call) for call in _direct_calls(loop.body))
    if isinstance(loop, ast.While):
        return points
    iterable, target = ast.unparse(loop.iter).lower(), ast.unparse(loop.target).lower()
    points += 2 * bool(_BATCHES.search(iterable) or "batch" in target)
    return points - ("epoch" in iterable or "epoch" in target)


def _direct_calls(body: list[ast.stmt]) -> Iterator[ast.Call]:
    """Calls of a loop's body, leaving out inner loops and functions."""
    waiting: list[ast.AST] = list(body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, (*_LOOPS, *_SCOPES)):
            continue
        if isinstance(node, ast.Call):
            yield node
        waiting.extend(ast.iter_child_nodes(node))


def _call_points(call: ast.Call) -> int:
    if isinstance(call.func, ast.Name):
        return _SIGNS.get(call.func.id, 0) if "_" in call.func.id else 0
    if not isinstance(call.func, ast.Attribute):
        return 0
    name, owner = call.func.attr, ast.unparse(call.func.value).lower()
    if name == "step" and any(word in owner for word in _OTHER_STEPPERS):
        return 0
    if name == "update":  # optax: updates, state = optimizer.update(gradients, state)
        return 3 * ("opt" in owner)
    return _SIGNS.get(name, 0)
