"""Questions of a page; the kernel decodes each with these types.

`js/src/types/questions.d.ts` says the same to the page, with the meaning of each question and field;
`answers.d.ts` beside it declares what comes back.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

import msgspec
from msgspec import UNSET, UnsetType

from ..errors import NotebookProfError

# A field without a default is required; one that may be `UNSET` is optional. Our page always sends every
# other field; the defaults are for other clients.
_CURVE: Final = (("a", float), ("b", float), ("px", float, 1000))
_PICTURE: Final = ("picture", float | UnsetType, UNSET)
_FIELDS: Final[Mapping[str, tuple[tuple[Any, ...], ...]]] = {
    "account": (),
    "calls": (
        ("names", list[str]),
        ("step", float | None),
        ("device", bool),
        ("id", float | UnsetType, UNSET),
        ("place", float | UnsetType, UNSET),
    ),
    "counters": (*_CURVE, ("tracks", list[float], [])),
    "detail": (("id", float | None, None),),
    "doubts": (),
    "find": (("id", float, -1), ("by", float, 1)),
    "legend": (("tint", str, "name"),),
    "memory": (*_CURVE, ("device", float | None, None)),
    "meta": (("doubts", Literal["later"] | UnsetType, UNSET),),
    "names": (("start", float, 0),),
    "neighbour": (("id", float, -1), ("to", str, "next"), ("row", float, 0), ("at", float, 0)),
    "panel": (("name", str, ""), ("own", list[str], []), ("choices", dict[str, str], {})),
    "path": (),
    "phases": (),
    "ranks": (),
    "recording": (),
    "search": (
        ("text", str, ""),
        ("px", float, 1000),
        ("id", float | UnsetType | None, UNSET),
        ("by", float | UnsetType, UNSET),
        ("at", float | UnsetType, UNSET),
    ),
    "selected": (("a", float), ("b", float)),
    "strip": (("px", float, 1000), ("tint", str, "name"), _PICTURE),
    "table": (
        ("by", str, "name"),
        ("scope", str, "all"),
        ("filter", str, ""),
        ("sort", str, "self_ns"),
        ("waits", bool, True),
        ("descending", bool | UnsetType, UNSET),
        ("by_side", bool | UnsetType, UNSET),
        ("start", float, 0),
        ("top", float, 200),
    ),
    "timeline": (
        *_CURVE,
        ("rows", list[float], []),
        ("places", list[float], []),
        ("zoom", float, 1),
        ("tint", str, "name"),
        ("max_quads", float, 4000),
        ("find", str, ""),
        _PICTURE,
    ),
    "what_if": (("factor", float),),
    "why": tuple((name, float | UnsetType, UNSET) for name in ("id", "track", "at")),
}
QUESTIONS: Final[Mapping[str, type[msgspec.Struct]]] = {
    name: msgspec.defstruct(f"{name.title().replace('_', '')}Request", fields, kw_only=True)
    for name, fields in _FIELDS.items()
}
"""Questions by name."""


def decode(request: Mapping[str, Any]) -> dict[str, Any]:
    """Return a question checked against its declared types, with defaults; unknown ones pass unchanged."""
    kind = str(request.get("t"))
    if (declared := QUESTIONS.get(kind)) is None:
        return dict(request)
    try:
        read = msgspec.convert(request, declared, strict=False)
    except msgspec.ValidationError as error:
        raise NotebookProfError(f"the question {kind!r} is invalid: {error}") from error
    return {**request, **msgspec.to_builtins(read)}  # without fields that are `UNSET`
