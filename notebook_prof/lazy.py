"""Packages whose names are imported when they are first used (PEP 562)."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Collection, Mapping
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


def lazy(package: str, modules: Mapping[str, str], elsewhere: Collection[str] = ()) -> list[str]:
    """Let a package import names when they are first used; return them for its ``__all__``."""
    # `modules` has the names that each module of the package provides, separated by spaces; `elsewhere` has
    # further names, as ``module:name`` relative to `notebook_prof`
    made = sys.modules[package]
    homes = {name: f"{package}.{module}" for module, names in modules.items() for name in names.split()}
    for target in elsewhere:
        module, _, name = target.partition(":")
        homes[name] = f"{__package__}.{module}"
    made.__dict__["_homes"] = homes
    made.__class__ = LazyPackage
    return sorted(homes)
