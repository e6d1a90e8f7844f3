"""Imports an optional library, or says in one sentence how to install it."""

from __future__ import annotations

import importlib
import importlib.util
from types import ModuleType

from .errors import ExtraNotInstalledError


def require(module: str, *, extra: str, purpose: str) -> ModuleType:
    """Import a module of the extra `extra`. If it is missing, ExtraNotInstalledError says what it is needed
    for."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ExtraNotInstalledError(
            f"{purpose} needs {module!r}, which cannot be imported here ({error}). "
            f'Install it with: pip install "notebook-prof[{extra}]"'
        ) from error


def installed(module: str) -> bool:
    """Return whether `module` could be imported, without importing it."""
    try:
        return importlib.util.find_spec(module) is not None
    except (ImportError, ValueError):
        return False
