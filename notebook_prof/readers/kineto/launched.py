"""Grid, block and shared memory of kernels that the file tells on the call that launched them (AMD)."""

from __future__ import annotations

from typing import Any, Final

import msgspec
import numpy as np
import pandas as pd

from ...trace.strings import Coded
from .columns import Ints, KinetoColumns

_KERNELS: Final = ("kernel", "concurrent_kernel")
_OF_LAUNCH: Final = ("grid", "block", "shared_memory")


def with_launches(columns: KinetoColumns) -> Coded | None:
    """What events tell beyond their times, with what calls tell of the kernels that they launched.

    roctracer of some versions writes the grid, the block and the shared memory of a kernel on the runtime
    call with the same correlation only.

    Parameters
    ----------
    columns : KinetoColumns

    Returns
    -------
    Coded or None
        ``columns.extra``, completed for kernels that do not tell all three themselves.
    """
    extra = columns.extra
    if extra is None or not len(columns):
        return extra
    told: list[dict[str, Any]] = [msgspec.json.decode(text) for text in extra.values]
    codes = np.asarray(extra.codes, np.int64)
    tells = np.array([*("grid" in each for each in told), False])[codes]
    whole = np.array([*(all(name in each for name in _OF_LAUNCH) for each in told), False])[codes]
    call = np.flatnonzero((columns.device < 0) & (columns.correlation >= 0) & tells)
    if not len(call):
        return extra
    of_kernel = np.array([*(kind.lower() in _KERNELS for kind in columns.kind.values), False])
    kernel = (columns.device >= 0) & (columns.correlation >= 0) & ~whole
    kernel &= of_kernel[np.asarray(columns.kind.codes)]
    rows = np.flatnonzero(kernel)
    call = call[np.argsort(columns.correlation[call], kind="stable")]
    keys = columns.correlation[call]
    found = np.minimum(np.searchsorted(keys, columns.correlation[rows]), len(keys) - 1)
    same = keys[found] == columns.correlation[rows]
    return _merged(extra, told, codes, rows[same], call[found[same]])


def _merged(extra: Coded, told: list[dict[str, Any]], codes: Ints, rows: Ints, calls: Ints) -> Coded:
    """`extra` with what `calls` tell put to what `rows` tell; each distinct pair is put together once."""
    pair, pairs = pd.factorize((codes[rows] + 1) * (len(told) + 1) + codes[calls])
    values, result = list(extra.values), codes.copy()
    new = np.empty(len(pairs), np.int64)
    for number, key in enumerate(pairs.tolist()):
        own, call = key // (len(told) + 1) - 1, key % (len(told) + 1)
        launch = {name: told[call][name] for name in _OF_LAUNCH if name in told[call]}
        new[number] = len(values)
        values.append(msgspec.json.encode(launch | (told[own] if own >= 0 else {})).decode())
    result[rows] = new[pair]
    return Coded(result, values)
