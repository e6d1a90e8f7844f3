"""Packages that are missing, out of bounds or broken: one sentence for each, with the command that helps."""

from __future__ import annotations

import functools
import importlib
import importlib.util
from importlib import metadata
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import TYPE_CHECKING, Final

from .errors import ExtraNotInstalledError

if TYPE_CHECKING:
    from packaging.requirements import Requirement

_OWN: Final = "notebook-prof"
_DISTRIBUTIONS: Final = {"pynvml": "nvidia-ml-py"}
_MODULES: Final = {"ipython": "IPython", "pillow": "PIL", "py-spy": ""}
"""Where a distribution and its module have different names; py-spy is a program."""
_MISSING: Final = "its files are missing"


def require(module: str, *, extra: str, purpose: str) -> ModuleType:
    """Import a module of the extra `extra`; ExtraNotInstalledError says what is wrong, and what helps."""
    cause: Exception | None = None
    try:
        found = importlib.import_module(module)
        reason = _MISSING if _is_empty(getattr(found, "__spec__", None)) else ""
    except Exception as error:  # a broken package may raise anything
        cause, reason = error, f"{type(error).__name__}: {error}"
    if wrong := _wrong_in_extra(module, extra, reason):
        raise ExtraNotInstalledError(f"{purpose} needs {wrong}") from cause
    return found


def installed(module: str) -> bool:
    """Return whether `module` could be imported, without importing it."""
    try:
        return importlib.util.find_spec(module) is not None
    except (ImportError, ValueError):
        return False


def wrong_requirements() -> list[str]:
    """Return a sentence for each package that the core needs and that is missing, broken or out of bounds."""
    sentences = []
    for requirement in _requirements(""):
        module = _MODULES.get(requirement.name.lower(), requirement.name)
        lacks = module and (not installed(module) or _is_empty(importlib.util.find_spec(module)))
        if wrong := _wrong(requirement, _MISSING if lacks else ""):
            sentences.append(f"notebook_prof needs {wrong}")
    return sentences


@functools.cache
def _wrong_in_extra(module: str, extra: str, reason: str) -> str:
    """Return what is wrong with a module of an extra; `reason` is why it cannot be imported, or empty."""
    top, install = module.partition(".")[0], f'pip install "{_OWN}[{extra}]"'
    name = _DISTRIBUTIONS.get(top, top).replace("_", "-").lower()
    requirement = next((one for one in _requirements(extra) if one.name.lower() == name), None)
    if requirement is None:
        return f"{module!r}, which cannot be imported here ({reason}): {install}" if reason else ""
    return _wrong(requirement, reason, install) if reason or _version(requirement.name) else ""


def _wrong(requirement: Requirement, reason: str, install: str = "") -> str:
    """Return what is wrong with a distribution, and the command that helps; empty if nothing is."""
    wanted, found = f"{requirement.name}{requirement.specifier}", _version(requirement.name)
    if not found:
        default = f'pip install "{wanted}"'
        return f"{wanted}, which is not installed: {install or default}"
    having = f"{wanted}, and {requirement.name} {found} is"
    if not requirement.specifier.contains(found, prereleases=True):
        return f'{having} installed: pip install "{wanted}"'
    return f'{having} broken ({reason}): pip install --force-reinstall "{wanted}"' if reason else ""


def _is_empty(spec: object) -> bool:
    """Return whether a module is a folder without code, as an interrupted installation leaves it."""
    return (
        isinstance(spec, ModuleSpec) and spec.origin is None and spec.submodule_search_locations is not None
    )


def _requirements(extra: str) -> list[Requirement]:
    """Return what the package, or one of its extras, requires in this environment; empty if nothing says."""
    try:
        from packaging.requirements import Requirement

        everything = [Requirement(line) for line in metadata.requires(_OWN) or ()]
    except Exception:  # run from a folder, without metadata; or packaging is what is broken
        return []
    chosen = {"extra": extra}
    return [one for one in everything if (one.marker.evaluate(chosen) if one.marker else not extra)]


def _version(distribution: str) -> str:
    try:
        return metadata.version(distribution)
    except Exception:  # not installed, or its metadata cannot be read
        return ""
