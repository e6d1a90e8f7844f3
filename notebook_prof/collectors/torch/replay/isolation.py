"""Restores PyTorch's state: random states, threads, element types and flags."""

from __future__ import annotations

import importlib
import random
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from itertools import count
from types import FunctionType
from typing import Any, Final

from ....errors import OptionError, nearest
from .calls import CannotReplayError, Prepared

_FLAGS: Final = {
    "backends.cudnn": ("enabled", "benchmark", "deterministic", "allow_tf32"),
    "backends.cuda.matmul": ("allow_tf32", "allow_fp16_reduced_precision_reduction"),
    "backends.mkldnn": ("enabled",),
}
"""Settings that affect operators, by torch module."""


@contextmanager
def isolated(torch: Any) -> Iterator[None]:
    """Run a block without autograd, autocast and warnings. Restores torch's state, even after errors."""
    # The state consists of the random states of torch on every device, of Python and of NumPy, the number of
    # threads, the default element type, deterministic algorithms, and the flags of cuDNN, cuBLAS and oneDNN.
    restore_random, before = random_states(), list(_settings(torch))
    try:
        with warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("ignore")
            with torch.autocast("cpu", enabled=False), torch.autocast("cuda", enabled=False):
                yield
    finally:
        restore_random()
        for (_, value), (put, now) in zip(before, _settings(torch), strict=True):
            if now != value:
                put(value)


def random_states() -> Callable[[], None]:
    """Return a function that restores the current random states of Python, NumPy and torch on all devices."""
    numpy, torch = (sys.modules.get(name) for name in ("numpy", "torch"))
    undo: list[Callable[[], Any]] = [partial(random.setstate, random.getstate())]
    if numpy is not None:
        undo.append(partial(numpy.random.set_state, numpy.random.get_state()))
    if torch is not None:
        undo.append(partial(torch.set_rng_state, torch.get_rng_state()))
        if torch.cuda.is_initialized():
            undo.append(partial(torch.cuda.set_rng_state_all, torch.cuda.get_rng_state_all()))

    def restore() -> None:
        for one in undo:
            one()

    return restore


def _settings(torch: Any) -> Iterator[tuple[Callable[[Any], object], Any]]:
    """Yield each of torch's settings as the function that sets it and its present value."""
    yield torch.set_num_threads, torch.get_num_threads()
    yield torch.set_default_dtype, torch.get_default_dtype()
    warn_only = torch.is_deterministic_algorithms_warn_only_enabled()
    deterministic = torch.are_deterministic_algorithms_enabled(), warn_only
    yield lambda both: torch.use_deterministic_algorithms(both[0], warn_only=both[1]), deterministic
    for path, names in _FLAGS.items():
        module = torch
        for part in path.split("."):
            module = getattr(module, part, None)
        for name in names:
            # some are missing in this version or on this machine
            with suppress(AttributeError, RuntimeError):
                yield partial(setattr, module, name), getattr(module, name)


# Tries, that is, variants of a call: other layouts or types of its inputs, other numbers of threads,
# compilation.

LAYOUTS: Final = ("channels_last", "contiguous")
DTYPES: Final = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32", "fp64": "float64"}
TRIES: Final = (*LAYOUTS, *DTYPES, "fused", "foreach", "threads", "compile")
_numbers: Final = count()


def tries_of(tries: str | Sequence[str]) -> list[str]:
    """Split the argument ``tries`` into names; OptionError for an unknown one.

    >>> tries_of(["channels_last+bf16", "threads=1,2"])
    ['channels_last+bf16', 'threads=1', 'threads=2']
    """
    names: list[str] = []
    for one in [tries] if isinstance(tries, str) else list(tries):
        name, equals, values = one.partition("=")
        names += [f"{name}={value.strip()}" for value in values.split(",")] if equals else [one]
    for name in names:
        for part in name.split("+"):
            key, _, value = part.partition("=")
            if key not in TRIES or (key == "threads") != (value.isdecimal() and int(value or 0) > 0):
                raise OptionError(
                    f"tries={name!r}: {nearest(part, [*TRIES[:-2], 'threads=2', 'compile'])}; "
                    "channels_last+bf16 tries both at once"
                )
    return list(dict.fromkeys(names))


def changed(torch: Any, prepared: Prepared, name: str) -> Prepared:
    """Return a call with a try applied, except for its number of threads."""
    for part in name.split("+"):
        if part.startswith("threads="):
            continue
        if prepared.remade is not None:
            prepared = prepared.remade(part)
        elif part in _CHANGES:
            prepared = _CHANGES[part](torch, prepared, part)
        else:
            raise CannotReplayError(
                "that applies to optimizers: ask for the step of yours, such as 'Optimizer.step#Adam.step'"
            )
    return prepared


def threads_of(name: str, otherwise: int) -> int:
    """Return the number of threads of a try, for example 4 for "bf16+threads=4"."""
    for part in name.split("+"):
        key, _, value = part.partition("=")
        otherwise = int(value) if key == "threads" else otherwise
    return otherwise


def _layout(torch: Any, prepared: Prepared, part: str) -> Prepared:
    """Return the call with inputs in another memory layout."""
    formats = {4: torch.channels_last, 5: torch.channels_last_3d}

    def change(tensor: Any) -> Any:
        if part == "contiguous":
            return tensor.contiguous()
        chosen = formats.get(tensor.dim())
        return tensor if chosen is None else tensor.contiguous(memory_format=chosen)

    changed = prepared.changed(change)
    if all(a is b for a, b in zip(prepared.tensors(), changed.tensors(), strict=True)):
        if part == "contiguous":
            raise CannotReplayError("all inputs were contiguous")
        raise CannotReplayError("no input has 4 or 5 dimensions and another layout")
    return changed


def _dtype(torch: Any, prepared: Prepared, part: str) -> Prepared:
    """Return the call with inputs of another element type."""
    dtype = getattr(torch, DTYPES[part])
    changed = prepared.changed(lambda tensor: tensor.to(dtype) if tensor.is_floating_point() else tensor)
    if all(a is b for a, b in zip(prepared.tensors(), changed.tensors(), strict=True)):
        raise CannotReplayError(f"no input is of another floating-point type than {DTYPES[part]}")
    return changed


def _compiled(torch: Any, prepared: Prepared, part: str) -> Prepared:
    """Return the call compiled by ``torch.compile``, with separate code, so earlier compilations are kept."""
    code = _template.__code__.replace(co_name=f"replayed_{next(_numbers)}")
    function = FunctionType(code, {"operator": prepared.run, "__builtins__": __builtins__})
    try:
        settings = importlib.import_module("torch._inductor.config")
        compiled = torch.compile(function, fullgraph=True, dynamic=False)
        first = prepared.changed(lambda tensor: tensor.clone()) if prepared.written else prepared
        with settings.patch(compile_threads=1):  # so no pool of processes is left behind
            replace(first, run=compiled)()
    except Exception as error:  # TorchDynamo, Inductor or a compiler may raise anything
        raise CannotReplayError(f"torch.compile cannot compile it: {first_line(error)}") from error
    return replace(prepared, run=compiled)


def _template(*args: Any, **kwargs: Any) -> Any:
    return operator(*args, **kwargs)  # type: ignore[name-defined]  # noqa: F821


_CHANGES: Final[dict[str, Callable[[Any, Prepared, str], Prepared]]] = {
    **dict.fromkeys(LAYOUTS, _layout),
    **dict.fromkeys(DTYPES, _dtype),
    "compile": _compiled,
}


def first_line(error: BaseException) -> str:
    return (str(error).strip().partition("\n")[0] or type(error).__name__)[:300]
