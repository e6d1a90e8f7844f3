"""The page's TypeScript declarations, and whether a value has a declared type."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

TYPES: Final = Path(__file__).parents[1] / "js" / "src" / "types"
_COMMENT: Final = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
_DECLARED: Final = re.compile(r"interface (\w+) (\{[^}]*\})|type (\w+) = (\{[^}]*\}|[^;]*);")
_FIELD: Final = re.compile(r"(\w+)(\??): ([^;]*);")
_PLAIN: Final = {"string": str, "number": int | float, "boolean": bool, "null": type(None)}
_LITERAL: Final = re.compile(r"'([^']*)'|(\d+)|(true|false)")
DTYPES: Final = {
    "Float64Array": "f8", "Int32Array": "i4", "Uint32Array": "u4", "Uint16Array": "u2", "Uint8Array": "u1",
}  # fmt: skip


def declared() -> dict[str, str]:
    """Return the text of each interface and type of questions and answers, by name."""
    files = (TYPES / f"{name}.d.ts" for name in ("messages", "questions", "answers"))
    text = "".join(_COMMENT.sub("", file.read_text(encoding="utf-8")) for file in files)
    return {match[1] or match[3]: match[2] or match[4] for match in _DECLARED.finditer(text)}


DECLARED: Final = declared()


def fields(name: str) -> dict[str, tuple[str, bool]]:
    """Return the type of each field of an interface, and whether the field may be left out."""
    return {field: (kind, bool(mark)) for field, mark, kind in _FIELD.findall(DECLARED[name])}


def alternatives(kind: str) -> list[str]:
    """Return the parts of ``A | B``, with names replaced by their types."""
    parts = _split(kind, "|")
    if len(parts) == 1:
        text = DECLARED.get(parts[0], "{")
        return parts if text.startswith("{") else alternatives(text)
    return [one for part in parts for one in alternatives(part)]


def problem(value: Any, kind: str, where: str) -> str:
    """List where a value does not match a type; empty if it matches. Types from elsewhere always match."""
    if len(parts := _split(kind, "|")) > 1:
        found = [problem(value, part, where) for part in parts]
        return "" if "" in found else f"{where}: {value!r:.200} is none of {kind}"
    if kind in _PLAIN:
        fits = isinstance(value, _PLAIN[kind]) and (kind != "number" or not isinstance(value, bool))
        return "" if fits else f"{where}: {value!r:.200} is no {kind}"
    if match := _LITERAL.fullmatch(kind):
        same = value == (match[1] if match[1] is not None else int(match[2]) if match[2] else kind == "true")
        return "" if same else f"{where}: {value!r:.200} is not {kind}"
    if kind.endswith("[]"):
        inner = kind[:-2].removeprefix("(").removesuffix(")") if kind.startswith("(") else kind[:-2]
        return _of_items(value, None, inner, where)
    if kind.startswith("["):
        return _of_items(value, _split(kind[1:-1], ","), "", where)
    if kind.startswith("Record<"):
        key, inner = _split(kind[7:-1], ",")
        if not isinstance(value, Mapping):
            return f"{where}: {value!r:.200} is no {kind}"
        pairs = [
            (problem(name, key, where), problem(one, inner, f"{where}.{name}")) for name, one in value.items()
        ]
        return next((words for pair in pairs for words in pair if words), "")
    if kind not in DECLARED:
        return ""
    return (
        interface(value, kind, where)
        if DECLARED[kind].startswith("{")
        else problem(value, DECLARED[kind], where)
    )


def interface(value: Any, name: str, where: str) -> str:
    """List where an object differs from an interface, ignoring columns."""
    known = fields(name)
    if not isinstance(value, Mapping):
        return f"{where}: {value!r:.200} is no {name}"
    if more := value.keys() - known.keys():
        return f"{where}: {name} has no field {', '.join(sorted(more))}"
    for field, (kind, optional) in known.items():
        if field == "data":
            continue
        if field not in value:
            if optional:
                continue
            return f"{where}: {name} needs {field}"
        if words := problem(value[field], kind, f"{where}.{field}"):
            return words
    return ""


def _of_items(value: Any, kinds: list[str] | None, kind: str, where: str) -> str:
    if not isinstance(value, list | tuple) or (kinds is not None and len(value) != len(kinds)):
        return f"{where}: {value!r:.200} is no list of {kinds or kind}"
    kinds = [kind] * len(value) if kinds is None else kinds
    found = (
        problem(one, each, f"{where}[{i}]") for i, (one, each) in enumerate(zip(value, kinds, strict=True))
    )
    return next(filter(None, found), "")


def _split(text: str, mark: str) -> list[str]:
    """Split at a mark outside of brackets and quotes."""
    parts, depth, quoted = [""], 0, False
    for letter in text:
        quoted ^= letter == "'"
        depth += 0 if quoted else (letter in "([<{") - (letter in ")]>}")
        if letter == mark and not depth and not quoted:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts]
