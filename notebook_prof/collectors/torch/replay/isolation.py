"""Leave PyTorch as it was: random states, threads, element types, flags."""

from __future__ import annotations

import random
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

_FLAGS: Final = {
    "backends.cudnn": ("enabled", "benchmark", "deterministic", "allow_tf32"),
    "backends.cuda.matmul": ("allow_tf32", "allow_fp16_reduced_precision_reduction"),
    "backends.mkldnn": ("enabled",),
}
"""Settings that change the behaviour of operators, by torch module."""


@contextmanager
def isolated(torch: Any) -> Iterator[None]:
    """Run a block without autograd, autocast and warnings, and restore torch's state afterwards, also on
    errors."""
    # The state: random states of torch on every device, of Python and of NumPy; the number of threads, the
    # default element type, deterministic algorithms and the flags of cuDNN, cuBLAS and oneDNN.
    before = _State(torch)
    try:
        with warnings.catch_warnings(), torch.no_grad(), _no_autocast(torch):
            warnings.simplefilter("ignore")
            yield
    finally:
        before.restore()


@contextmanager
def _no_autocast(torch: Any) -> Iterator[None]:
    with torch.autocast("cpu", enabled=False), torch.autocast("cuda", enabled=False):
        yield


class _State:
    """The current global state of torch, and the random states."""

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self._random = random.getstate()
        numpy = sys.modules.get("numpy")
        self._numpy = None if numpy is None else (numpy, numpy.random.get_state())
        self._generator = torch.get_rng_state()
        self._devices = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else []
        self._threads = torch.get_num_threads()
        self._dtype = torch.get_default_dtype()
        self._deterministic = torch.are_deterministic_algorithms_enabled()
        self._warn_only = torch.is_deterministic_algorithms_warn_only_enabled()
        self._flags = list(self._read_flags())

    def _read_flags(self) -> Iterator[tuple[Any, str, Any]]:
        for path, names in _FLAGS.items():
            module = self._torch
            for part in path.split("."):
                module = getattr(module, part, None)
            for name in names:
                try:
                    value = getattr(module, name)
                except (
                    AttributeError,
                    RuntimeError,
                ):  # missing in this version or on this machine
                    continue
                yield module, name, value

    def restore(self) -> None:
        """Restore the settings that have changed; equal ones are not touched."""
        torch = self._torch
        random.setstate(self._random)
        if self._numpy is not None:
            numpy, state = self._numpy
            numpy.random.set_state(state)
        torch.set_rng_state(self._generator)
        if self._devices:
            torch.cuda.set_rng_state_all(self._devices)
        if torch.get_num_threads() != self._threads:
            torch.set_num_threads(self._threads)
        if torch.get_default_dtype() != self._dtype:
            torch.set_default_dtype(self._dtype)
        now = (
            torch.are_deterministic_algorithms_enabled(),
            torch.is_deterministic_algorithms_warn_only_enabled(),
        )
        if now != (self._deterministic, self._warn_only):
            torch.use_deterministic_algorithms(self._deterministic, warn_only=self._warn_only)
        for module, name, value in self._flags:
            if getattr(module, name) != value:
                setattr(module, name, value)
