"""Does a cell count its steps itself, with ``nbp.step()`` or ``nbp.steps(...)``?"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any, Final

_PACKAGE: Final = "notebook_prof"
_MARKS: Final = ("step", "steps")


def counts_itself(tree: ast.Module, namespace: Mapping[str, Any]) -> bool:
    """Whether the source calls a mark of steps.

    Parameters
    ----------
    tree : ast.Module
        The cell.
    namespace : mapping
        Names that earlier cells defined.

    Examples
    --------
    >>> counts_itself(ast.parse("import notebook_prof as n\\nn.step()"), {})
    True
    """
    modules = {_PACKAGE} | {name for name, value in namespace.items() if _is_package(value)}
    functions = {name for name, value in namespace.items() if _is_mark(value)}
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


def _is_package(value: Any) -> bool:
    return type(value).__name__ == "module" and getattr(value, "__name__", None) == _PACKAGE


def _is_mark(value: Any) -> bool:
    return (
        type(value).__name__ == "function"
        and getattr(value, "__module__", None) == f"{_PACKAGE}.collectors.marks"
        and getattr(value, "__name__", None) in _MARKS
    )
