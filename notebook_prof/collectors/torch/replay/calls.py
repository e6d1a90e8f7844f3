"""Repeats a recorded call: finds its overload by PyTorch's schemas, and makes similar tensors."""

from __future__ import annotations

import ast
import json
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

_DTYPES: Final = {
    "float": "float32", "double": "float64", "half": "float16", "bool": "bool", "bfloat16": "bfloat16",
    "complex<half>": "complex32", "complex<float>": "complex64", "complex<double>": "complex128",
    "char": "int8", "signed char": "int8", "byte": "uint8", "unsigned char": "uint8",
    "short": "int16", "short int": "int16", "unsigned short": "uint16",
    "int": "int32", "unsigned int": "uint32",
    "long": "int64", "long int": "int64", "long long": "int64", "__int64": "int64", "unsigned long": "uint64",
    **{name: name for name in ("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz")},
}  # fmt: skip
"""Python names of element types by C++ name."""
_LIST: Final = "TensorList"
_NO_TENSOR: Final = frozenset({"", "Scalar", "ScalarList", "GenericList", "None"})


class CannotReplayError(Exception):
    """Raised for a call that cannot be repeated. The message says why, and what to do."""


@dataclass(frozen=True)
class RecordedCall:
    """A recorded call. Its texts are those of ``metadata["tables"]["operator_arguments"]``."""

    name: str  # such as ``aten::mm``
    # the texts are empty if not recorded
    shapes: str
    dtypes: str
    strides: str
    concrete: str
    count: int  # number of times it ran
    device: str  # ``cpu`` or ``cuda``

    @property
    def title(self) -> str:
        return f"{self.name} of {self.shapes}"


@dataclass(frozen=True, eq=False)
class Prepared:
    """A call that is ready to run."""

    run: Callable[..., Any]  # an overload of an operator
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    written: tuple[int, ...]  # positions in `args` to which the operator writes
    # makes the same step with another implementation of the optimizer; None for operators
    remade: Callable[[str], Prepared] | None = None

    def __call__(self) -> Any:
        return self.run(*self.args, **self.kwargs)

    def tensors(self) -> Iterator[Any]:
        """Yield the tensors among the arguments, including those in lists."""
        return tensors_in([*self.args, *self.kwargs.values()])

    def bytes(self) -> int:
        return sum(int(one.untyped_storage().nbytes()) for one in self.tensors())

    def changed(self, change: Callable[[Any], Any]) -> Prepared:
        """Return the same call with each tensor changed."""

        def each(value: Any) -> Any:
            if isinstance(value, list | tuple):
                return [each(one) for one in value]
            return change(value) if hasattr(value, "is_floating_point") else value

        kwargs = {name: each(value) for name, value in self.kwargs.items()}
        return Prepared(self.run, tuple(map(each, self.args)), kwargs, self.written)


def tensors_in(value: Any) -> Iterator[Any]:
    """Yield a tensor, or the tensors in a list, tuple or nested ones."""
    if isinstance(value, list | tuple):
        for one in value:
            yield from tensors_in(one)
    elif hasattr(value, "is_floating_point"):
        yield value


def prepare(torch: Any, call: RecordedCall, limit: int, *, positive: bool = False) -> Prepared:
    """Find the recorded overload, and make random tensors like the recorded ones, within `limit` bytes."""
    # The numbers in tensors are not recorded, so they are normally distributed, or between 0.5 and 1.5 if
    # `positive`. Integers are below the smallest dimension of the other tensors, so they are valid indices
    # into any of them. On a GPU they are 0, since an invalid index there would break CUDA for the whole
    # process.
    shapes, dtypes, strides, values = _texts(call)
    generator = torch.Generator(device=call.device)
    generator.manual_seed(0)
    sizes = [size for size, dtype in zip(shapes, dtypes, strict=True) for size in _dims(size, dtype)]
    indices = min(sizes, default=1) if call.device == "cpu" else 1
    maker = _Maker(torch, call, generator, positive, indices, limit)
    reasons = []
    for overload in _overloads(torch, call.name, len(dtypes)):
        schema = overload._schema.arguments
        types = [str(argument.real_type) for argument in schema]
        if not all(map(_fits, types, dtypes)):
            continue
        try:
            made = [
                _value(argument, maker, *recorded)
                for argument, *recorded in zip(schema, shapes, dtypes, strides, values, strict=True)
            ]
        except CannotReplayError as error:
            reasons.append(str(error))
            continue
        named = [argument.kwarg_only for argument in schema]
        args = tuple(value for value, only in zip(made, named, strict=True) if not only)
        kwargs = {a.name: value for a, value, only in zip(schema, made, named, strict=True) if only}
        written = [i for i, a in enumerate(schema) if a.alias_info is not None and a.alias_info.is_write]
        prepared = Prepared(overload, args, kwargs, tuple(i for i in written if not named[i]))
        _check(prepared, call)
        return prepared
    raise CannotReplayError(
        reasons[0]
        if reasons
        else f"{call.name} has no overload for {len(dtypes)} arguments of types {call.dtypes} in PyTorch "
        f"{torch.__version__}: replay it with the version that recorded it"
    )


def _texts(call: RecordedCall) -> tuple[list[Any], list[str], list[Any], list[str]]:
    """Return shapes, element types, strides and values, one entry per argument. Unknown strides are None."""
    if not (call.shapes and call.dtypes):
        raise CannotReplayError(
            f"the types of the inputs of {call.name} were not recorded: record again with --shapes"
        )
    shapes = list(ast.literal_eval(call.shapes))
    dtypes = [str(one) for one in json.loads(call.dtypes)]
    strides = list(json.loads(call.strides)) if call.strides else [None] * len(shapes)
    values = [str(one) for one in json.loads(call.concrete)] if call.concrete else [""] * len(shapes)
    if not len(shapes) == len(dtypes) == len(strides) == len(values):
        raise CannotReplayError(
            f"shapes, types and values of {call.name} were recorded for {len(shapes)}, {len(dtypes)} and "
            f"{len(values)} arguments: record again with --shapes and PyTorch 2.4 or later"
        )
    return shapes, dtypes, strides, values


def _dims(shape: Any, dtype: str) -> list[int]:
    """Return the dimensions of a floating-point tensor, which integers may index; none for other tensors."""
    if dtype == _LIST:
        return [int(size) for one in shape for size in one]
    name = _DTYPES.get(_plain(dtype), "")
    return [int(size) for size in shape] if "float" in name or "complex" in name else []


def _plain(dtype: str) -> str:
    return dtype.replace("c10::", "").lower()


def _overloads(torch: Any, name: str, arguments: int) -> list[Any]:
    """Return the overloads of an operator with this number of arguments."""
    space, separator, plain = name.partition("::")
    if not separator or "::" in plain or not plain.isidentifier():
        raise CannotReplayError(
            f"{name} is not an operator with a schema, such as aten::mm: name an operator inside it, "
            "p.operators() lists them"
        )
    packet = getattr(getattr(torch.ops, space), plain, None)
    if packet is None:
        raise CannotReplayError(
            f"this process has no operator {name}: import the package that registers it, or replay it with "
            f"the PyTorch that recorded it; here is {torch.__version__}"
        )
    overloads = [getattr(packet, overload) for overload in packet.overloads()]
    return [one for one in overloads if len(one._schema.arguments) == arguments]


def _fits(type_name: str, dtype: str) -> bool:
    """Return whether a recorded value can belong to an argument with this type in the schema."""
    plain, optional = type_name, type_name.startswith("Optional[")
    if optional:
        plain = type_name[len("Optional[") : -1]
    if dtype == _LIST:
        return plain.startswith("List[") and "Tensor" in plain
    if dtype not in _NO_TENSOR:
        return plain == "Tensor"
    if dtype == "":
        return optional or plain != "Tensor"
    return "Tensor" not in plain and plain.startswith("List[") == (dtype != "Scalar")


def _value(argument: Any, maker: _Maker, shape: Any, dtype: str, strides: Any, text: str) -> Any:
    """Return the value of an argument of a call."""
    if dtype == _LIST:
        if not shape:
            raise CannotReplayError(
                f"the tensors of a list of {maker.call.name} were not recorded: PyTorch records lists of up "
                "to 30; replay the operators inside it"
            )
        every = strides or [None] * len(shape)
        return [maker.tensor(size, maker.list_dtype, one) for size, one in zip(shape, every, strict=True)]
    if dtype not in _NO_TENSOR:
        maker.list_dtype = dtype
        return maker.tensor(shape, dtype, strides)
    name = str(argument.real_type)
    if text == "":
        if name.startswith("Optional["):
            return None
        if argument.default_value is not None:
            return argument.default_value
        raise CannotReplayError(
            f"the argument {argument.name!r} of {maker.call.name} was not recorded: record again with "
            "--shapes and PyTorch 2.4 or later; lists with missing tensors are never recorded"
        )
    try:
        return _parsed(name.removeprefix("Optional[").rstrip("]") if "Optional" in name else name, text)
    except (ValueError, SyntaxError):
        raise CannotReplayError(
            f"the argument {argument.name!r} of {maker.call.name} was {text!r}, which is not a {name}"
        ) from None


def _parsed(name: str, text: str) -> Any:
    """Parse a value according to the name of its type.

    >>> _parsed("List[int]", "[1, 2]"), _parsed("number", "0.5"), _parsed("bool", "True")
    ([1, 2], 0.5, True)
    """
    if name.startswith("List["):
        if not (text.startswith("[") and text.endswith("]")):
            raise ValueError(text)
        return [
            _parsed(name[len("List[") :].rstrip("]"), one.strip()) for one in text[1:-1].split(",") if one
        ]
    if name in ("str", "Device"):
        return text
    if text in ("True", "False"):
        return text == "True"
    if name == "bool":
        return bool(int(text))
    if name == "float":
        return float(text)
    try:
        return int(text)
    except ValueError:
        if name != "number":
            raise
        return float(text)


class _Maker:
    """Makes tensors of given shapes, types and strides, within a limit of bytes."""

    def __init__(
        self, torch: Any, call: RecordedCall, generator: Any, positive: bool, indices: int, limit: int
    ) -> None:
        self._torch, self.call, self._generator = torch, call, generator
        self._positive, self._indices, self._limit = positive, indices, limit
        self._bytes = 0
        self.list_dtype = "float"
        """Type of tensors in lists, which is not recorded: that of the previous tensor, or float."""

    def tensor(self, shape: Sequence[int], dtype: str, strides: Sequence[int] | None) -> Any:
        """Return a tensor, which is contiguous if no strides are given."""
        torch = self._torch
        element = dtype_named(torch, dtype, self.call.name)
        shape = [int(size) for size in shape]
        steps = [math.prod(shape[i + 1 :]) for i in range(len(shape))]  # contiguous
        if strides is not None and len(strides) == len(shape):
            steps = list(strides)
        count = 1 + sum((size - 1) * step for size, step in zip(shape, steps, strict=True))
        count = count if math.prod(shape) else 0
        self._bytes += count * element.itemsize
        if self._bytes > self._limit:
            raise CannotReplayError(
                f"the inputs of {self.call.title} take over {self._limit:,} bytes: allow more with memory="
            )
        return self._numbers(count, element).as_strided(shape, steps)

    def _numbers(self, count: int, element: Any) -> Any:
        torch, options = self._torch, {"device": self.call.device, "generator": self._generator}
        if element is torch.bool:
            return torch.randint(0, 2, (count,), dtype=torch.int64, **options).bool()
        if not (element.is_floating_point or element.is_complex):
            high = max(1, min(self._indices, 127))
            return torch.randint(0, high, (count,), dtype=torch.int64, **options).to(element)
        wide = element if element in (torch.float64, torch.complex64, torch.complex128) else torch.float32
        if self._positive and element.is_floating_point:
            return (torch.rand(count, dtype=wide, **options) + 0.5).to(element)
        return torch.randn(count, dtype=wide, **options).to(element)


def dtype_named(torch: Any, dtype: str, operator: str) -> Any:
    """Return the element type with this C++ name."""
    element = getattr(torch, _DTYPES.get(_plain(dtype), ""), None)
    if element is None:
        raise CannotReplayError(
            f"{operator} had an input of type {dtype!r}, which PyTorch {torch.__version__} does not have"
        )
    return element


def _check(prepared: Prepared, call: RecordedCall) -> None:
    """Raise CannotReplayError for a call that would not be the same."""
    if not any(True for _ in prepared.tensors()):
        raise CannotReplayError(f"{call.name} takes no tensor: no try applies to it")
    for at in prepared.written:
        for one in tensors_in(prepared.args[at]):
            # an operator may only write where elements fill the memory without gaps or overlaps
            if one.untyped_storage().nbytes() != one.numel() * one.element_size():
                raise CannotReplayError(
                    f"{call.name} wrote into a view of another tensor, which was not recorded: replay the "
                    "operator that reads it"
                )
