"""A recorded call of an operator, and its work."""

from __future__ import annotations

import ast
import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeAlias

Shape: TypeAlias = tuple[int, ...]

_ELEMENT_BYTES: Final = {
    **dict.fromkeys(("bool", "char", "signed char", "unsigned char", "int8", "uint8", "byte"), 1),
    **dict.fromkeys(("short", "int16", "half", "float16", "bfloat16"), 2),
    **dict.fromkeys(("int", "int32", "float", "float32"), 4),
    **dict.fromkeys(("long", "long int", "long long", "int64", "double", "float64", "complex<float>"), 8),
    "complex<double>": 16,
}
_FLOAT8: Final = re.compile(r"float8|quint8|qint8", re.IGNORECASE)
_NUMBER: Final = re.compile(r"-?\d+")
_NO_TENSOR: Final = frozenset({"", "Scalar", "ScalarList"})


class CallWork(NamedTuple):
    """The work of one call, if each input is read once and each output is written once."""

    kind: str
    # Floating-point operations; a multiplication and an addition count as two.
    flops: float
    bytes: float


@dataclass(frozen=True, slots=True)
class Call:
    """The inputs of a call."""

    # The operator's name without the prefix ``aten::``.
    name: str
    # One entry per argument; ``()`` for arguments that are not tensors, and for tensors without dimensions.
    shapes: Sequence[Any]
    # Size of each argument's elements; 0 if it is not a tensor.
    element_bytes: Sequence[float]
    # Arguments that are not tensors, as text; empty if unknown.
    values: Sequence[str]

    @classmethod
    def read(
        cls, name: str, shapes: str, dtypes: str | None, concrete: str | None, default_bytes: float = 4
    ) -> Call:
        """Parse a call from the texts of a trace; ValueError or SyntaxError for malformed shapes."""
        sizes = [_shape(entry) for entry in ast.literal_eval(shapes)]
        types = json.loads(dtypes) if dtypes else None
        if types is None or len(types) != len(sizes):
            types = ["unknown" if size else "Scalar" for size in sizes]
        elements = [_size(str(text), default_bytes) for text in types]
        values = [str(value) for value in json.loads(concrete)] if concrete else []
        return cls(name.removeprefix("aten::"), sizes, elements, values)

    def tensor(self, at: int) -> Shape:
        """Return the shape of an argument; () if there is no such argument."""
        return self.shapes[at] if at < len(self.shapes) and not _is_list(self.shapes[at]) else ()

    def elements_of(self, at: int) -> int:
        """Return the number of elements of an argument, over all tensors of a list; 0 for no tensor."""
        if at >= len(self.shapes) or not self.element_bytes[at]:
            return 0
        shape = self.shapes[at]
        return sum(map(math.prod, shape)) if _is_list(shape) else math.prod(shape)

    def bytes_of(self, *at: int) -> float:
        """Return the bytes of these arguments (by default, of all)."""
        chosen = at or range(len(self.shapes))
        return float(sum(self.elements_of(i) * self.element_bytes[i] for i in chosen if i < len(self.shapes)))

    def item_bytes(self) -> float:
        """Return the size of an element of the first tensor."""
        return next((size for size in self.element_bytes if size), 4.0)

    def ints(self, at: int, count: int) -> list[int] | None:
        """Return an argument such as ``[1, 1]`` or ``2`` as `count` numbers; None if unknown."""
        if at >= len(self.values):
            return None
        numbers = [int(text) for text in _NUMBER.findall(self.values[at])]
        if len(numbers) == 1:
            numbers *= count
        return numbers if len(numbers) == count else None

    def text(self, at: int) -> str:
        """Return the text of an argument; empty if unknown."""
        return self.values[at] if at < len(self.values) else ""


def _is_list(entry: Any) -> bool:
    return bool(entry) and isinstance(entry[0], tuple)


def _shape(entry: Any) -> Any:
    if entry and isinstance(entry[0], list | tuple):
        return tuple(_shape(inner) for inner in entry)
    return tuple(int(size) for size in entry)


def _size(text: str, default: float) -> float:
    if text in _NO_TENSOR:
        return 0
    word = text.removeprefix("c10::").lower()
    if _FLOAT8.search(word):
        return 1
    return _ELEMENT_BYTES.get(word, default)
