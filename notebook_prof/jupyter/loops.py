"""Finds the loops of a cell whose iterations are its steps, and whether the cell counts steps itself."""

from __future__ import annotations

import ast
import itertools
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from ..collectors import marks

_PACKAGE: Final = "notebook_prof"
_MARKS: Final = ("step", "steps")


def counts_itself(tree: ast.Module, namespace: Mapping[str, Any]) -> bool:
    """Return whether the source calls ``nbp.step()`` or ``nbp.steps(...)``, under any name."""
    modules = {_PACKAGE, *(name for name, value in namespace.items() if value is sys.modules[_PACKAGE])}
    functions = {name for name, value in namespace.items() if value is marks.step or value is marks.steps}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            modules |= {alias.asname or alias.name for alias in node.names if alias.name == _PACKAGE}
        elif isinstance(node, ast.ImportFrom) and node.module == _PACKAGE:
            functions |= {alias.asname or alias.name for alias in node.names if alias.name in _MARKS}
    return any(
        _calls_mark(node.func, modules, functions) for node in ast.walk(tree) if isinstance(node, ast.Call)
    )


def _calls_mark(function: ast.expr, modules: set[str], functions: set[str]) -> bool:
    if isinstance(function, ast.Name):
        return function.id in functions
    if not (isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name)):
        return False
    return function.attr in _MARKS and function.value.id in modules


Loop = ast.For | ast.AsyncFor | ast.While
LOOPS: Final = (ast.For, ast.AsyncFor, ast.While)
_FUNCTIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef)
SCOPES: Final = (*_FUNCTIONS, ast.ClassDef, ast.Lambda)

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
_LOADER_CLASSES: Final = re.compile(r"(Data|Batch|Web|Fast)?Loaders?(Shard|Dispatcher)?$|^TfmdDL$")
_PIPELINES: Final = ("tensorflow", "mindspore", "paddle", "grain", "webdataset", "nvidia")

_tokens = itertools.count(1)


@dataclass(frozen=True, slots=True)
class FoundLoop:
    """A loop that counts steps. ``token`` is negative if there is no sign of training."""

    node: Loop
    token: int

    @property
    def line(self) -> int:
        """Its line in the cell, counted from 1."""
        return self.node.lineno

    @property
    def text(self) -> str:
        """The loop's head, such as ``for x, y in loader``."""
        loop = self.node
        if isinstance(loop, ast.While):
            return f"while {ast.unparse(loop.test)}"
        word = "async for" if isinstance(loop, ast.AsyncFor) else "for"
        # unparse writes `for (x, y) in …`
        several = loop.target.elts if isinstance(loop.target, ast.Tuple) else [loop.target]
        return f"{word} {', '.join(map(ast.unparse, several))} in {ast.unparse(loop.iter)}"


def find_loops(
    tree: ast.Module,
    line: int | None = None,
    *,
    weak: bool = False,
    namespace: Mapping[str, Any] | None = None,
) -> list[FoundLoop]:
    """Choose the loops whose iterations are the steps, ordered by line, none of them inside another."""
    # Calls directly in the body are signs of training and give points: ``backward`` 4, ``.step`` of anything
    # that may be an optimizer 3, … Of nested loops, the one with the most points is taken; in a tie, the
    # outermost. A target named batch, or an iterable named like a loader, adds 2; an epoch subtracts 1. If no
    # loop trains, a loop over a DataLoader (recognised by its class, not its name) counts steps. With `line`,
    # the loop on that line is taken. With `weak`, if there is no sign of training anywhere, a loop of the
    # cell itself is taken: the outermost, unless another looks more like a loop over batches.
    scope = _Scope(tree, namespace or {})
    every = list(_loops(tree))
    if line is not None:
        chosen = [loop for loop, _, _ in every if loop.lineno == line][:1]
        return [FoundLoop(loop, next(_tokens)) for loop in chosen]
    signs = {
        id(loop): sum(_call_points(call, scope) for call in _direct_calls(loop.body)) for loop, _, _ in every
    }
    if not any(signs.values()):
        signs = {id(loop): int(_over_loader(loop, scope)) for loop, _, _ in every}
    if any(signs.values()):
        ticking = [FoundLoop(loop, next(_tokens)) for loop in _best(tree, signs)]
        return sorted(ticking, key=lambda one: one.line)
    own = [
        (-_likeness(loop), depth, loop.lineno, loop) for loop, depth, inside in every if weak and not inside
    ]
    return [FoundLoop(min(own, key=lambda entry: entry[:3])[-1], -next(_tokens))] if own else []


def _best(node: ast.AST, signs: Mapping[int, int]) -> list[Loop]:
    """Return the best of nested loops; of loops beside each other, return all."""
    best: list[Loop] = []
    for child in ast.iter_child_nodes(node):
        inner = _best(child, signs)
        if isinstance(child, LOOPS) and signs[id(child)]:
            own = signs[id(child)] + _likeness(child)
            if own >= max((signs[id(loop)] + _likeness(loop) for loop in inner), default=own):
                inner = [child]
        best += inner
    return best


def loop_lines(tree: ast.Module) -> list[int]:
    """Return the lines on which the cell's loops start, in ascending order."""
    return sorted({loop.lineno for loop, _, _ in _loops(tree)})


def _loops(tree: ast.AST) -> Iterator[tuple[Loop, int, bool]]:
    """Yield every loop with its depth among loops and whether it is in a function."""
    waiting: list[tuple[ast.AST, int, bool]] = [(tree, 0, False)]
    while waiting:
        node, depth, inside = waiting.pop()
        for child in ast.iter_child_nodes(node):
            if isinstance(child, LOOPS):
                yield child, depth, inside
            deeper = depth + isinstance(child, LOOPS)
            waiting.append((child, deeper, inside or isinstance(child, _FUNCTIONS)))


class _Scope:
    """The meaning of names in a cell: values made by earlier cells, or calls in this one."""

    def __init__(self, tree: ast.Module, namespace: Mapping[str, Any]) -> None:
        self._namespace = namespace
        self._made = {
            target.id: node.value
            for node in ast.walk(tree)
            if isinstance(node, ast.Assign)
            for target in node.targets
            if isinstance(target, ast.Name)
        }

    def value(self, node: ast.expr) -> Any:
        """Return the object of a name, or of an attribute that can be read without running code, or None."""
        if isinstance(node, ast.Name):
            return None if node.id in self._made else self._namespace.get(node.id)
        if isinstance(node, ast.Attribute):
            return vars_of(self.value(node.value)).get(node.attr)
        return None

    def made_by(self, node: ast.expr) -> str:
        """Return the name of the call in the cell that makes it, such as ``torch.optim.Adam``, or ""."""
        made = self._made.get(node.id) if isinstance(node, ast.Name) else node
        return ast.unparse(made.func) if isinstance(made, ast.Call) else ""


def vars_of(value: Any) -> Mapping[str, Any]:
    """Return the attributes stored in an object itself."""
    attributes = getattr(value, "__dict__", None) if value is not None else None
    return attributes if isinstance(attributes, Mapping) else {}


def _over_loader(loop: Loop, scope: _Scope) -> bool:
    """Return whether a loop iterates over batches, also through ``enumerate``, ``zip`` or ``tqdm``."""
    if isinstance(loop, ast.While):
        return False
    parts = [node for node in ast.walk(loop.iter) if isinstance(node, ast.Name | ast.Attribute | ast.Call)]
    return any(
        is_loader(scope.value(part)) or _LOADER_CLASSES.search(scope.made_by(part).rpartition(".")[2])
        for part in parts
    )


def is_loader(value: Any) -> bool:
    """Return whether an object yields batches: a DataLoader of any library, or a data pipeline."""
    for kind in type(value).__mro__:
        home, name = kind.__module__.partition(".")[0], kind.__name__
        if kind.__module__ != "builtins" and _LOADER_CLASSES.search(name):
            return True
        if home in _PIPELINES and name in ("Dataset", "DatasetV2", "IterDataset", "DataLoader", "WebLoader"):
            return True
    return False


def _optimizes(owner: ast.expr, scope: _Scope) -> bool:
    """Return whether ``owner.step()`` or ``owner.minimize(loss)`` may be a training step."""
    text = ast.unparse(owner).lower()
    if any(word in text for word in _OTHER_STEPPERS):
        return False
    value = scope.value(owner)
    if value is None:
        return True
    names = " ".join(f"{kind.__module__}.{kind.__name__}" for kind in type(value).__mro__).lower()
    return any(word in names for word in ("optim", "scaler", "engine", "accelerat", "trainer"))


def _likeness(loop: Loop) -> int:
    """Return how much the head looks like a loop over batches."""
    if isinstance(loop, ast.While):
        return 0
    iterable, target = ast.unparse(loop.iter).lower(), ast.unparse(loop.target).lower()
    likes = 2 * bool(_BATCHES.search(iterable) or "batch" in target)
    return likes - ("epoch" in iterable or "epoch" in target)


def _direct_calls(body: list[ast.stmt]) -> Iterator[ast.Call]:
    """Yield calls of a loop's body, leaving out inner loops and functions."""
    waiting: list[ast.AST] = list(body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, (*LOOPS, *SCOPES)):
            continue
        if isinstance(node, ast.Call):
            yield node
        waiting.extend(ast.iter_child_nodes(node))


def _call_points(call: ast.Call, scope: _Scope) -> int:
    if isinstance(call.func, ast.Name):
        return _SIGNS.get(call.func.id, 0) if "_" in call.func.id else 0
    if not isinstance(call.func, ast.Attribute):
        return 0
    name, owner = call.func.attr, call.func.value
    if name in ("step", "minimize") and not _optimizes(owner, scope):
        return 0
    if name == "update":  # optax: updates, state = optimizer.update(gradients, state)
        return 3 * ("opt" in ast.unparse(owner).lower())
    return _SIGNS.get(name, 0)
