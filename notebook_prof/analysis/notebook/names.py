"""The names that a cell reads and writes, from its syntax tree."""

from __future__ import annotations

import ast
import builtins
import functools
import re
from collections.abc import Mapping
from typing import Final, NamedTuple

_MAGIC: Final = re.compile(r"^(\s*)([%!?].*|.*\?\??\s*)$")
_GIVEN: Final = re.compile(r"^(\s*[\w, ]+=)\s*[%!].*$")
_PYTHON_CELLS: Final = ("%%time", "%%timeit", "%%capture", "%%profile", "%%prun", "%%memit", "%%debug")
_BUILTIN: Final = frozenset(dir(builtins)) | {"get_ipython", "display", "In", "Out", "__name__", "__file__"}


class Names(NamedTuple):
    """Global names of a cell."""

    reads: frozenset[str]  # used before the cell itself has set them, also in its functions
    writes: frozenset[str]  # set, changed by item or attribute, or deleted
    imports: Mapping[str, str]  # what the names hold that only an import sets


@functools.lru_cache(maxsize=20_000)
def names_of(source: str) -> Names:
    """Return the names that a cell reads and writes.

    >>> names_of("df = pd.read_csv(path)").reads == {"pd", "path"}
    True
    >>> names_of("df['a'] = 1").writes == {"df"}
    True
    """
    try:
        tree = ast.parse(_python_of(source))
    except (SyntaxError, ValueError, RecursionError):
        return Names(frozenset(), frozenset(), {})
    visitor = _Visitor()
    for statement in tree.body:
        visitor.visit(statement)
    for body in visitor.later:  # functions run after the cell has set all its names
        visitor.reads |= body - visitor.bound
    return Names(frozenset(visitor.reads - _BUILTIN), frozenset(visitor.writes), visitor.imports)


def _python_of(source: str) -> str:
    """Return a cell without magics; empty for a cell magic whose body is not Python."""
    lines = source.strip("\n").splitlines()
    captured = ""
    while lines and (not lines[0].strip() or lines[0].startswith("%%")):
        first = lines.pop(0)
        if first.startswith("%%") and not first.startswith(_PYTHON_CELLS):
            return ""
        if first.startswith("%%capture") and (words := first.split()[1:2]) and words[0].isidentifier():
            captured = f"{words[0]} = None"
    kept = [_GIVEN.sub(r"\1 None", line) for line in lines]
    text = "\n".join([*kept, captured])
    try:
        ast.parse(text)
        return text
    except (SyntaxError, ValueError, RecursionError):
        return "\n".join([*(_MAGIC.sub(r"\1pass", line) for line in kept), captured])


_ORDER: Final[Mapping[type[ast.AST], tuple[str, ...]]] = {
    ast.Assign: ("value", "targets"),
    **dict.fromkeys((ast.For, ast.AsyncFor), ("iter", "target", "body", "orelse")),
    **dict.fromkeys((ast.ListComp, ast.SetComp, ast.GeneratorExp), ("generators", "elt")),
    ast.DictComp: ("generators", "key", "value"),
    ast.comprehension: ("iter", "target", "ifs"),
    **dict.fromkeys((ast.FunctionDef, ast.AsyncFunctionDef), ("decorator_list", "args")),
    ast.Lambda: ("args",),
    ast.arguments: ("defaults", "kw_defaults"),
    ast.ClassDef: ("decorator_list", "bases", "keywords"),
}
"""Fields of nodes in the order in which Python evaluates them, where ``_fields`` has another order."""


class _Visitor(ast.NodeVisitor):
    """Collects names in the order in which a cell runs. Bodies of functions are collected separately."""

    def __init__(self) -> None:
        self.reads: set[str] = set()
        self.writes: set[str] = set()
        self.bound: set[str] = set()
        self.later: list[set[str]] = []
        self.imports: dict[str, str] = {}

    def generic_visit(self, node: ast.AST) -> None:
        for field in _ORDER.get(type(node), node._fields):
            value = getattr(node, field, None)
            for part in value if isinstance(value, list) else [value]:
                if isinstance(part, ast.AST):
                    self.visit(part)

    def visit_Name(self, node: ast.Name) -> None:
        if isinstance(node.ctx, ast.Load):
            self._read(node.id)
        else:
            self._write(node.id, binds=isinstance(node.ctx, ast.Store))

    def _read(self, name: str) -> None:
        if name not in self.bound:
            self.reads.add(name)

    def _write(self, name: str, *, binds: bool = True) -> None:
        self.writes.add(name)
        self.imports.pop(name, None)
        if binds:
            self.bound.add(name)

    def visit_Attribute(self, node: ast.Attribute | ast.Subscript) -> None:
        """Count an assignment to an item or attribute as a change of the named object."""
        self.generic_visit(node)
        root: ast.expr = node
        while isinstance(root, ast.Attribute | ast.Subscript):
            root = root.value
        if not isinstance(node.ctx, ast.Load) and isinstance(root, ast.Name):
            self.writes.add(root.id)

    visit_Subscript = visit_Attribute

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        self.visit(node.annotation)
        if node.value is not None:
            self.visit(node.value)
            self.visit(node.target)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self.visit(node.value)
        if isinstance(node.target, ast.Name):
            self._read(node.target.id)
        self.visit(node.target)

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            whole = alias.name if alias.asname else alias.name.partition(".")[0]
            self._import(alias.asname or whole, whole)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        for alias in node.names:
            if alias.name != "*":
                self._import(alias.asname or alias.name, f"{'.' * node.level}{node.module} {alias.name}")

    def _import(self, name: str, held: str) -> None:
        self._write(name)
        self.imports[name] = held

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> None:
        if node.name:
            self.bound.add(node.name)
        self.generic_visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        self.generic_visit(node)
        self._write(node.name)
        self.later.append(_free(node.args, node.body))

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_Lambda(self, node: ast.Lambda) -> None:
        self.generic_visit(node)
        self.later.append(_free(node.args, [node.body]))

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self.generic_visit(node)
        inner = _Visitor()
        for statement in node.body:
            inner.visit(statement)
        self.reads |= inner.reads - self.bound
        self.later += [body - {node.name} for body in inner.later]
        self._write(node.name)

    def _comprehension(self, node: ast.AST) -> None:
        inner = _Visitor()
        inner.generic_visit(node)
        self.reads |= inner.reads - self.bound
        self.later += [body - inner.bound for body in inner.later]

    visit_ListComp = visit_SetComp = visit_DictComp = visit_GeneratorExp = _comprehension


def _free(arguments: ast.arguments, body: list[ast.stmt] | list[ast.expr]) -> set[str]:
    """Return the names that a function takes from outside, wherever it uses them."""
    inner = _Visitor()
    own = {node.arg for node in ast.iter_child_nodes(arguments) if isinstance(node, ast.arg)}
    for part in body:
        inner.visit(part)
    nodes = (node for part in body for node in ast.walk(part))
    shared = {name for node in nodes if isinstance(node, ast.Global) for name in node.names}
    local = (inner.bound | own) - shared
    used = inner.reads.union(*inner.later)
    return used - local
