"""The base class of ``p.memory`` and the like: analyses of one topic under one name."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from types import MethodType
from typing import Any, ClassVar, Concatenate, ParamSpec, TypeVar, cast

from .. import selection
from ..errors import OptionError
from ..trace import Trace

# Turns analyses into methods, with the docstring and parameters of the analysis function.

P = ParamSpec("P")
R = TypeVar("R")


def method(load: Callable[[], Callable[Concatenate[Trace, P], R]]) -> Callable[Concatenate[Any, P], R]:
    """Make a method of the analysis that `load` returns, with the Trace filled in."""
    # The analysis is loaded when the method is first looked up. A method that returns a table also accepts
    # ``where=``: text for `notebook_prof.selection.Query`, or a selection.
    return cast("Callable[Concatenate[Any, P], R]", Method(load))


class Method:
    """Replaces itself with the method when first looked up. `analysis` is the function's name."""

    def __init__(self, load: Callable[[], Callable[..., Any]]) -> None:
        self._load = load
        code = getattr(load, "__code__", None)
        # the name in ``lambda: analysis.steps``, read without loading the analysis
        self.analysis: str = code.co_names[-1] if code else ""
        self._owner: type = object
        self._name = ""

    def __set_name__(self, owner: type, name: str) -> None:
        self._owner, self._name = owner, name

    def __get__(self, instance: object, owner: type) -> Any:
        made = _method(self._load())
        made.__name__, made.__qualname__ = self._name, f"{self._owner.__qualname__}.{self._name}"
        setattr(self._owner, self._name, made)
        return made if instance is None else MethodType(made, instance)


def _method(analysis: Callable[..., Any]) -> Callable[..., Any]:
    signature = inspect.signature(analysis)
    first, *further = signature.parameters.values()
    takes_more = {"where", "options"}.isdisjoint(signature.parameters)
    tabular = "DataFrame" in str(signature.return_annotation) and takes_more

    @functools.wraps(analysis)
    def bound(self: Any, *args: Any, **kwargs: Any) -> Any:
        where, trace = kwargs.pop("where", None) if tabular else None, trace_of(self)
        if where is None:
            return analysis(trace, *args, **kwargs)
        if isinstance(where, selection.Selection):
            where = where.to_state()
        elif not isinstance(where, str):
            raise OptionError(f"where= takes a text such as 'conv self>1ms', or p.selection; got {where!r}")
        return selection.filtered(analysis, trace, where, *args, **kwargs)

    me = inspect.Parameter("self", first.kind)
    if tabular:
        annotation = "str | Selection | None"
        further.append(
            inspect.Parameter("where", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)
        )
    bound.__signature__ = signature.replace(parameters=[me, *further])  # type: ignore[attr-defined]
    return bound


class Namespace:
    """Methods of one topic of a Profile.

    A subclass has a `path`, its name on a Profile, and methods. If it has ``__call__``, the namespace can
    also be called.

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
    path: ClassVar[str]

    def __init_subclass__(cls, path: str) -> None:
        cls.path = path

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
        firsts = [(inspect.getdoc(member) or "").partition("\n")[0] for member in calls.values()]
        return "\n".join(f"{call.ljust(width)}  {first}" for call, first in zip(calls, firsts, strict=True))


N = TypeVar("N", bound=Namespace)


def topic(kind: type[N]) -> N:
    """Make a property of a Profile: its namespace of this kind."""
    return cast("N", property(kind, doc=kind.__doc__))


def trace_of(holder: Any) -> Trace:
    """Return the Trace of a Profile, or of a namespace's Profile."""
    trace: Trace = (holder._profile if isinstance(holder, Namespace) else holder).trace
    return trace
