"""Import an optional library, or say in one sentence how to get it."""

from __future__ import annotations

import importlib
import importlib.util
from types import ModuleType

from .errors import ExtraNotInstalledError


def require(module: str, *, extra: str, purpose: str) -> ModuleType:
    """Import `module`, which belongs to the optional extra `extra`.

    Parameters
    ----------
    module : str
        Dotted name to import.
    extra : str
        Name of the extra in ``pip install "notebook-prof[extra]"``.
    purpose : str
        What it is needed for; ends up in the message.

    Returns
    -------
    ModuleType

    Raises
    ------
    ExtraNotInstalledError
        If it is not installed.

    Examples
    --------
    >>> require("json", extra="none", purpose="this example").__name__
    'json'
    """
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
