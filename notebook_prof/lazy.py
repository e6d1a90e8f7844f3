"""Packages whose names are imported when they are first used (PEP 562)."""

from __future__ import annotations

import ast
import importlib
import sys
from collections.abc import Mapping
from importlib.util import resolve_name
from pathlib import Path
from types import ModuleType
from typing import Any


class LazyPackage(ModuleType):
    """A package whose lazy names work even if one of its folders has the same name."""

    _homes: Mapping[str, str] = {}

    def __getattr__(self, name: str) -> Any:
        if (home := self._homes.get(name)) is None:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(home), name)
        setattr(self, name, value)
        return value

    def __setattr__(self, name: str, value: object) -> None:
        # the import system sets every subpackage and module as an attribute of its package
        if not (name in self._homes and isinstance(value, ModuleType)):
            super().__setattr__(name, value)

    def __dir__(self) -> list[str]:
        return sorted(self._homes)


def lazy(package: str) -> list[str]:
    """Let a package import names when they are first used; return them for its ``__all__``."""
    # The names, and the modules that have them, are those of its imports for type checkers, which are not
    # executed: ``from .module import name as name``.
    made = sys.modules[package]
    homes = {
        alias.name: resolve_name(f"{'.' * statement.level}{statement.module}", package)
        for statement in ast.walk(ast.parse(Path(str(made.__file__)).read_bytes()))
        if isinstance(statement, ast.ImportFrom)
        for alias in statement.names
        if alias.asname
    }
    made.__dict__["_homes"] = homes
    made.__class__ = LazyPackage
    return sorted(homes)
