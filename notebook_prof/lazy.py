"""Packages with names that are imported when they are first used (PEP 562)."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping
from types import ModuleType
from typing import Any


class LazyPackage(ModuleType):
    """A package with names of its modules, even if a folder in it has the same name."""

    _homes: Mapping[str, str] = {}

    def __getattr__(self, name: str) -> Any:
        if (home := self._homes.get(name)) is None:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(f"{self.__name__}.{home}"), name)
        setattr(self, name, value)
        return value

    def __setattr__(self, name: str, value: object) -> None:
        # the import system sets every folder and file as an attribute of its package
        if not (name in self._homes and isinstance(value, ModuleType)):
            super().__setattr__(name, value)

    def __dir__(self) -> list[str]:
        return sorted(self._homes)


def lazy(package: str, modules: Mapping[str, str]) -> list[str]:
    """Make a package import names when first used; call it in its ``__init__``. Returns ``__all__``."""
    # `modules` maps a module, relative to the package, to its names, separated by spaces
    made = sys.modules[package]
    homes = {name: module for module, names in modules.items() for name in names.split()}
    made.__dict__["_homes"] = homes
    made.__class__ = LazyPackage
    return sorted(homes)
