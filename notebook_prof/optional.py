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


def require(module: str, *, extra: str, purpose: str) -> ModuleType:
    """Import a module of the extra `extra`; ExtraNotInstalledError says what is wrong, and what helps."""
    try:
        found = importlib.import_module(module)
    except Exception as error:  # a broken package may raise anything
        reason = f"{type(error).__name__}: {error}"
        raise ExtraNotInstalledError(_told(module, extra, purpose, reason)) from error
    if _is_empty(getattr(found, "__spec__", None)):
        raise ExtraNotInstalledError(_told(module, extra, purpose, "its files are missing"))
    if wrong := _wrong_version(module.partition(".")[0], extra):
        raise ExtraNotInstalledError(f"{purpose} needs {wrong}")
    return found


def installed(module: str) -> bool:
    """Return whether `module` could be imported, without importing it."""
    try:
        return importlib.util.find_spec(module) is not None
    except (ImportError, ValueError):
        return False


def wrong_requirements() -> list[str]:
    """Return a sentence for each package that the core needs and that is missing, broken or out of bounds."""
    return [f"notebook_prof needs {wrong}" for one in _requirements("") if (wrong := _wrong(one))]


def _wrong(requirement: Requirement) -> str:
    wanted, found = f"{requirement.name}{requirement.specifier}", _version(requirement.name)
    if not found:
        return f'{wanted}, which is not installed: pip install "{wanted}"'
    if wrong := _out_of_bounds(requirement, found):
        return wrong
    module = _MODULES.get(requirement.name.lower(), requirement.name)
    if module and (not installed(module) or _is_empty(importlib.util.find_spec(module))):
        return _broken(wanted, f"{requirement.name} {found}", "its files are missing")
    return ""


def _is_empty(spec: object) -> bool:
    """Return whether a module is a folder without code, as an interrupted installation leaves it."""
    return (
        isinstance(spec, ModuleSpec) and spec.origin is None and spec.submodule_search_locations is not None
    )


def _broken(wanted: str, found: str, reason: str) -> str:
    return f'{wanted}, and {found} is broken ({reason}): pip install --force-reinstall "{wanted}"'


def _told(module: str, extra: str, purpose: str, reason: str) -> str:
    """Return why a module of an extra cannot be imported, and the command that helps."""
    name, install = module.partition(".")[0], f'pip install "{_OWN}[{extra}]"'
    requirement = _requirement(name, extra)
    if requirement is None:
        return f"{purpose} needs {module!r}, which cannot be imported here ({reason}): {install}"
    wanted, found = f"{requirement.name}{requirement.specifier}", _version(requirement.name)
    if not found:
        return f"{purpose} needs {wanted}, which is not installed: {install}"
    wrong = _wrong_version(name, extra) or _broken(wanted, f"{requirement.name} {found}", reason)
    return f"{purpose} needs {wrong}"


@functools.cache
def _wrong_version(module: str, extra: str) -> str:
    requirement = _requirement(module, extra)
    found = _version(requirement.name) if requirement is not None else ""
    return _out_of_bounds(requirement, found) if requirement is not None and found else ""


def _out_of_bounds(requirement: Requirement, found: str) -> str:
    if requirement.specifier.contains(found, prereleases=True):
        return ""
    wanted = f"{requirement.name}{requirement.specifier}"
    return f'{wanted}, and {requirement.name} {found} is installed: pip install "{wanted}"'


def _requirement(module: str, extra: str) -> Requirement | None:
    name = _DISTRIBUTIONS.get(module, module).replace("_", "-").lower()
    return next((one for one in _requirements(extra) if one.name.lower() == name), None)


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
