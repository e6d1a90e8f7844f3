"""Names that methods of a Profile had before there were namespaces; each warns and leads to the new one."""

from __future__ import annotations

import warnings
from typing import Any, Final

from ..analysis.method_names import ADDED, METHODS

RENAMED: Final = {
    **{old: new for old, new in METHODS.items() if old not in ADDED},
    "to_html": "export.html",
    "to_png": "export.png",
    "to_svg": "export.svg",
    "export_stacks": "export.stacks",
    "table": "compat.torch_table",
    "paddle_summary": "compat.paddle_summary",
}
"""Old name → dotted new name."""


def member(profile: Any, path: str) -> Any:
    """Follow a dotted name from a Profile.

    Examples
    --------
    >>> from notebook_prof import Profile
    >>> from notebook_prof.testing import draw
    >>> member(Profile(draw("main: [mm ]")), "memory.peak")().columns[0]
    'device'
    """
    for name in path.split("."):
        profile = getattr(profile, name)
    return profile


class Renamed:
    """A method under its old name.

    Parameters
    ----------
    old, new : str
        The names, the new one dotted.
    """

    def __init__(self, old: str, new: str) -> None:
        self._old, self._new = old, new
        self.__doc__ = f"Deprecated: use ``p.{new}()``."

    def __get__(self, profile: Any, owner: type | None = None) -> Any:
        if profile is None:
            return self
        message = f"p.{self._old}() is now p.{self._new}(); the old name goes with the next release"
        warnings.warn(message, DeprecationWarning, stacklevel=2)
        return member(profile, self._new)


class OldNames:
    """The names of `RENAMED` as attributes that ``dir`` does not list.

    Examples
    --------
    >>> import warnings
    >>> from notebook_prof import Profile
    >>> from notebook_prof.testing import draw
    >>> p = Profile(draw("main: [mm ]"))
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     _ = p.memory_peak()
    >>> print(caught[0].message)
    p.memory_peak() is now p.memory.peak(); the old name goes with the next release
    """

    def __dir__(self) -> list[str]:
        return sorted({*object.__dir__(self)} - {*RENAMED})


for _old, _new in RENAMED.items():
    setattr(OldNames, _old, Renamed(_old, _new))
