"""Measures the ceilings of a device, by a large matrix product and a large copy."""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import numpy as np

from ..analysis.device.roofline import HOST, Ceilings, remember
from ..errors import OptionError, nearest

DTYPES: Final = ("float16", "bfloat16", "float32", "float64")
_SECONDS: Final = 0.4
_FEWEST: Final = 3
_HOST_SIZE: Final = 1024
_HOST_BYTES: Final = 2**26
_DEVICE_SIZE: Final = 8192
_DEVICE_BYTES: Final = 2**29
_CACHE: dict[tuple[str, str], Ceilings] = {}

Work = Callable[[], Any]


def measure_device(device: str | None = None, *, dtype: str = "float32", again: bool = False) -> Ceilings:
    """Measure the ceilings of the roofline on this machine. Takes about a second the first time.

    Parameters
    ----------
    device : str, optional
        ``host``, or ``cuda`` with or without a number (``cuda:1``). Default: the first GPU that PyTorch
        finds, else the host.
    dtype : {"float32", "float64", "float16", "bfloat16"}
        Element type of the matrix product. The host needs PyTorch for ``bfloat16``.
    again : bool
        Measure again even if this process has measured it before.

    Returns
    -------
    Ceilings
        The best of several runs. The result is stored and becomes the roofline's ceiling for later
        recordings of this device. ``p.device.roofline(**nbp.measure_device().limits)`` uses it explicitly.

    Raises
    ------
    OptionError
        If the device does not exist or does not support the type.

    Notes
    -----
    FLOP/s: 2 n³ for the product of two square matrices, by PyTorch or, on a host without it, NumPy, with
    their current threads and modes (such as TF32). Bytes/s: twice the bytes of a copy that is too large
    for the caches, since each byte is read and written.

    Examples
    --------
    >>> ceilings = measure_device("host")
    >>> ceilings.flops_per_s > 1e6 and ceilings.bytes_per_s > 1e6
    True
    """
    if dtype not in DTYPES:
        raise OptionError(f"there is no element type {dtype!r} to measure: {nearest(dtype, DTYPES)}")
    torch, chosen = _torch(), device
    if chosen is None:
        chosen = "cuda:0" if torch is not None and torch.cuda.is_available() else HOST
    ceilings = _CACHE.get((chosen, dtype))
    if ceilings is None or again:
        ceilings = _CACHE[chosen, dtype] = _measure(torch, chosen, dtype)
    remember(ceilings)
    return ceilings


def _measure(torch: Any, device: str, dtype: str) -> Ceilings:
    if device == HOST:
        return _host(torch, dtype)
    kind, _, number = device.partition(":")
    if kind != "cuda" or not (number or "0").isdigit():
        raise OptionError(f"there is no device {device!r}: write host, cuda or cuda:1")
    gpu = int(number or 0)
    if torch is None or not torch.cuda.is_available() or gpu >= torch.cuda.device_count():
        raise OptionError(f"there is no GPU {gpu} that PyTorch can use; the host is 'host'")
    return _cuda(torch, gpu, dtype)


def _host(torch: Any, dtype: str) -> Ceilings:
    n = _HOST_SIZE
    if torch is not None:
        one = torch.rand(n, n).to(getattr(torch, dtype))
        product: Work = lambda: torch.mm(one, one)  # noqa: E731
        how = "PyTorch"
    elif dtype == "bfloat16":
        raise OptionError("NumPy has no bfloat16: install PyTorch to measure it on the host")
    else:
        array = np.random.default_rng(0).random((n, n)).astype(dtype)
        product = lambda: array @ array  # noqa: E731
        how = "NumPy"
    source = np.ones(_HOST_BYTES, np.uint8)
    target = np.empty_like(source)
    rates = 2 * n**3 / _best(product), 2 * _HOST_BYTES / _best(lambda: np.copyto(target, source))
    return Ceilings(HOST, *rates, dtype, f"{how}, {n} × {n} {dtype}")


def _cuda(torch: Any, gpu: int, dtype: str) -> Ceilings:
    n, where = _DEVICE_SIZE, f"cuda:{gpu}"
    one = torch.rand(n, n, device=where).to(getattr(torch, dtype))
    source = torch.ones(_DEVICE_BYTES, dtype=torch.uint8, device=where)
    target = torch.empty_like(source)
    wait = partial(torch.cuda.synchronize, gpu)
    product, copied = _best(lambda: torch.mm(one, one), wait), _best(lambda: target.copy_(source), wait)
    rates = 2 * n**3 / product, 2 * _DEVICE_BYTES / copied
    name = str(torch.cuda.get_device_name(gpu))
    return Ceilings(name, *rates, dtype, f"PyTorch, {n} × {n} {dtype}")


def _best(work: Work, wait: Work = lambda: None) -> float:
    """Return the shortest time of several runs in a few tenths of a second. The first run only warms up."""
    times: list[float] = []
    while len(times) <= _FEWEST or sum(times[1:]) < _SECONDS:
        wait()
        begin = time.perf_counter()
        work()
        wait()
        times.append(time.perf_counter() - begin)
    return max(min(times[1:]), 1e-9)


def _torch() -> Any:
    """Import PyTorch and return it; None if that is impossible."""
    try:
        return importlib.import_module("torch")
    except Exception:  # a broken installation counts as not installed
        return None
