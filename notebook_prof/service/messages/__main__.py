"""Writes the TypeScript declarations of the messages."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin, get_type_hints

import msgspec
from msgspec import UnsetType

from .answers import ANSWERS, MODULES, slices, tabs, timeline, trace
from .base import Columns, Declared, Header
from .questions import QUESTIONS, CurveRequest, Question

# Structs of messages as TypeScript declarations.

_WORDS: Final = {
    str: "string",
    float: "number",
    int: "number",
    bool: "boolean",
    NoneType: "null",
    Any: "unknown",
}


def interface(declared: type[msgspec.Struct]) -> str:
    """Return a Struct, with inherited fields, as an interface."""
    hints = get_type_hints(declared, include_extras=True)
    tag = declared.__struct_config__.tag
    lines = [f"  {declared.__struct_config__.tag_field}: '{tag}';"] if tag is not None else []
    for one in msgspec.structs.fields(declared):
        lines.append(f"  {one.name}{optional(hints[one.name])}: {written(hints[one.name])};")
    if (columns := getattr(declared, "data", None)) is not None:
        lines.append(f"  data: {columns.__name__};")
    if not lines and issubclass(declared, Columns):
        return f"{_remark(declared.__doc__)}type {declared.__name__} = NumberColumns;"
    body = "{\n" + "\n".join(lines) + "\n}" if lines else "{}"
    if issubclass(declared, Columns):  # an interface is not assignable to NumberColumns
        return f"{_remark(declared.__doc__)}type {declared.__name__} = {body};"
    return f"{_remark(declared.__doc__)}interface {declared.__name__} {body}"


def alias(name: str, hint: Any) -> str:
    """Return ``type NAME = …``.

    >>> alias("Size", int | None)
    'type Size = number | null;'
    """
    return f"type {name} = {written(hint)};"


def table(name: str, remark: str, entries: Iterable[tuple[str, str]]) -> str:
    """Return an interface with these fields and types."""
    fields = "\n".join(f"  {field}: {kind};" for field, kind in entries)
    return f"{_remark(remark)}interface {name} {{\n{fields}\n}}"


def optional(hint: Any) -> str:
    """Return a question mark for a field that may be left out."""
    return "?" if UnsetType in get_args(hint) else ""


def written(hint: Any) -> str:
    """Return a type as TypeScript; ``extra["ts"]`` overrides it."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return str(hint.__metadata__[0].extra["ts"])
    if origin in (Union, UnionType):
        return " | ".join(written(one) for one in arguments if one is not UnsetType)
    if origin is Literal:
        return " | ".join(_literal(one) for one in arguments)
    if origin is list:
        inner = written(arguments[0])
        return f"({inner})[]" if " | " in inner else f"{inner}[]"
    if origin is tuple:
        return f"[{', '.join(map(written, arguments))}]"
    if origin is dict:
        return f"Record<{written(arguments[0])}, {written(arguments[1])}>"
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        return hint.__name__
    return _WORDS[hint]


def _literal(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"'{value}'" if isinstance(value, str) else str(value)


def _remark(text: str | None) -> str:
    lines = [line.strip() for line in (text or "").strip().splitlines()]
    return f"/** {' '.join(line for line in lines if line)} */\n" if text else ""


_REMARK: Final = "// Written by `python -m notebook_prof.service.messages`: do not change it here."
TYPES: Final = Path(__file__).parents[3] / "js" / "src" / "types"


def declarations() -> dict[str, str]:
    """Return the content of each generated file of ``js/src/types``."""
    requests_by_name = table(
        "Asked",
        "The fields of each question, besides its name.",
        ((name, declared.__name__) for name, declared in QUESTIONS.items()),
    )
    replies = table(
        "Answers",
        "What comes back.",
        ((name, " | ".join(one.__name__ for one in kinds)) for name, kinds in ANSWERS.items()),
    )
    requests: list[type[Question]] = [CurveRequest, *QUESTIONS.values()]
    questions = [interface(one) for one in requests]
    aliases = [
        alias("CellUnit", tabs.Unit),
        alias("TabPart", tabs.Part),
        alias("Doubts", trace.Doubts),
        alias("LodPicture", timeline.LodPicture),
        alias("SearchAnswer", slices.SearchAnswer),
    ]
    return {
        "questions.d.ts": "\n".join([_REMARK, *questions, requests_by_name]) + "\n",
        "answers.d.ts": "\n".join([_REMARK, *aliases, *map(interface, _declared()), replies]) + "\n",
    }


def _declared() -> list[type[Columns] | type[Declared]]:
    values = [value for module in MODULES for value in vars(module).values() if isinstance(value, type)]
    kinds = [one for one in values if issubclass(one, Columns | Declared) and one not in (Columns, Declared)]
    return [Header, *dict.fromkeys(kinds)]


if __name__ == "__main__":
    for name, text in declarations().items():
        (TYPES / name).write_text(text, encoding="utf-8")
