"""The base class of ``p.memory`` and the like: analyses of one topic under one name."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, ClassVar, Protocol

from ..trace import Trace


class HasTrace(Protocol):
    """Anything with a Trace."""

    @property
    def trace(self) -> Trace:
        """The recording."""
        ...


class Namespace:
    """Methods of one topic of a Profile.

    A subclass defines `path`, its name on a Profile, and its methods. If it has ``__call__``, the namespace
    can also be called.

    Parameters
    ----------
    profile : Profile

    Examples
    --------
    >>> from notebook_prof import Profile
    >>> from notebook_prof.testing import draw
    >>> p = Profile(draw("main: [mm ]"))
    >>> p.mindspore
    p.mindspore.cluster_steps()   Compare the ranks of a MindSpore folder, as MindInsight's cluster page does.
    p.mindspore.cluster_links()   List the links between ranks, as MindInsight's communication page does.
    p.mindspore.cluster_advice()  Name the ranks, links and stages that stand out.
    >>> dir(p.lines)
    ['calls', 'imports', 'source', 'steps']
    """

    __slots__ = ("_profile",)
    path: ClassVar[str] = ""

    def __init__(self, profile: Any) -> None:
        self._profile = profile

    @classmethod
    def members(cls) -> dict[str, Callable[..., Any]]:
        """Return the public methods by name, in the order of the source."""
        names = [name for name in vars(cls) if name[0] != "_"]
        members = {name: getattr(cls, name) for name in names}
        return {name: member for name, member in members.items() if inspect.isfunction(member)}

    def __dir__(self) -> list[str]:
        return sorted(self.members())

    def __repr__(self) -> str:
        calls = {f"p.{self.path}.{name}()": member for name, member in self.members().items()}
        if callable(self):
            calls = {f"p.{self.path}()": type(self).__call__, **calls}
        width = max(map(len, calls))
        return "\n".join(f"{call.ljust(width)}  {_first(member)}" for call, member in calls.items())


def trace_of(holder: Any) -> Trace:
    """Return the Trace of a Profile, or of a namespace's Profile."""
    profile: HasTrace = holder._profile if isinstance(holder, Namespace) else holder
    return profile.trace


def _first(member: Callable[..., Any]) -> str:
    return (inspect.getdoc(member) or "").partition("\n")[0]
