"""What formats add to a Profile: printers (``p.compat.NAME``) and analyses (``p.TOPIC.NAME``)."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ClassVar

from .. import extensions
from ..trace import Trace
from .methods import method
from .namespace import Namespace
from .text import Text


class Compat(Namespace):
    """The texts and tables of other profilers, for recordings of every format."""

    path: ClassVar[str] = "compat"

    @classmethod
    def members(cls) -> dict[str, Callable[..., Any]]:
        """Return all printers by name, including those of other packages."""
        for name in extensions.points("printers"):
            _attach(name)
        return super().members()

    def __getattr__(self, name: str) -> Any:
        if name[0] == "_" or name not in extensions.points("printers"):
            raise AttributeError(f"p.compat has no {name!r}: it has {', '.join(dir(self))}")
        _attach(name)
        return getattr(self, name)


def _attach(name: str) -> None:
    made: Any = method(_printer(name))
    made.__set_name__(Compat, name)
    setattr(Compat, name, made)


def _printer(name: str) -> Callable[[], Callable[..., Any]]:
    def load() -> Callable[..., Any]:
        printer = extensions.load("printers", name)

        @functools.wraps(printer)
        def shown(trace: Trace, *args: Any, **options: Any) -> Any:
            result = printer(trace, *args, **options)
            return Text(result) if isinstance(result, str) else result

        return shown

    return load


for _name in extensions.OURS["printers"]:
    _attach(_name)


def topics() -> set[str]:
    """Return the topics of other packages' analyses, which they register as ``TOPIC.NAME``."""
    return {name.partition(".")[0] for name in extensions.points("analyses")}


@functools.cache
def topic(path: str) -> type[Namespace]:
    """Return the namespace of one of `topics`."""
    members = {
        name.partition(".")[2]: method(functools.partial(extensions.load, "analyses", name))
        for name in extensions.points("analyses")
        if name.partition(".")[0] == path
    }
    return type(path.title(), (Namespace,), {"__slots__": (), "path": path, **members})
