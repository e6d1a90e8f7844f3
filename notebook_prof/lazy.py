"""Packages whose names are imported when they are first used (PEP 562)."""

from __future__ import annotations

import importlib
import inspect
import re
import sys
from collections.abc import Mapping
from types import ModuleType
from typing import Any, Final

_IMPORT: Final = re.compile(r"^    from (\.[\w.]+) import \w+ as (\w+)$", re.MULTILINE)


class LazyPackage(ModuleType):
    """A package whose lazy names work even if one of its folders has the same name."""

    _homes: Mapping[str, str] = {}

    def __getattr__(self, name: str) -> Any:
        if (home := self._homes.get(name)) is None:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(home, self.__name__), name)
        setattr(self, name, value)
        return value

    def __setattr__(self, name: str, value: object) -> None:
        # the import system sets every subpackage and module as an attribute of its package
        if not (name in self._homes and isinstance(value, ModuleType)):
            super().__setattr__(name, value)

    def __dir__(self) -> list[str]:
        return sorted(self._homes)


def lazy(package: str) -> list[str]:
    """Let a package import names when they are first used. Call this in its ``__init__``.

    Parameters
    ----------
    package : str
        Its ``__name__``. Its names are those that its source imports ``if TYPE_CHECKING``, one a line.

    Returns
    -------
    list of str
        All names, for ``__all__``.
    """
    made = sys.modules[package]
    homes = {name: module for module, name in _IMPORT.findall(inspect.getsource(made))}
    made.__dict__["_homes"] = homes
    made.__class__ = LazyPackage
    return sorted(homes)
