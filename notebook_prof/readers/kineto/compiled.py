"""What torch.compile tells of the kernels that it made: arguments of the operators that launch them."""

from __future__ import annotations

from typing import Any, Final

import msgspec
import numpy as np
import pandas as pd

from ...trace.intervals import IntArray
from ...trace.strings import Coded
from ..event_arguments import argument_rows, argument_table
from .columns import KinetoColumns

_MARKS: Final = ("kernel_backend", "kernel_hash")
_KEPT: Final = (*_MARKS, "kernel_file", "kernel_kwargs", "num_warps", "num_stages", "grid")


def compiled_arguments(columns: KinetoColumns, track: IntArray) -> pd.DataFrame | None:
    """Rows of ``event_arguments`` for operators that launch a kernel of Triton or another backend.

    Parameters
    ----------
    columns : KinetoColumns
    track : ndarray of int64, shape (n,)
        Track of every row.

    Returns
    -------
    DataFrame or None
        `arguments` has ``kernel_backend kernel_hash kernel_file kernel_kwargs num_warps num_stages grid``
        as far as the file tells them; None without such operators.
    """
    if columns.extra is None:
        return None
    texts: list[str] = []
    code = np.full(len(columns.extra.values) + 1, -1, np.int64)
    for i, text in enumerate(columns.extra.values):
        told: dict[str, Any] = msgspec.json.decode(text)
        if any(mark in told for mark in _MARKS):
            code[i] = len(texts)
            kept = {name: told[name] for name in _KEPT if name in told}
            texts.append(msgspec.json.encode(kept).decode())
    if not texts:
        return None
    codes = np.where(columns.device < 0, code[np.asarray(columns.extra.codes)], -1)
    return argument_table([argument_rows(track, columns.ts, columns.dur, columns.name, Coded(codes, texts))])
