"""What is written for the names of a trace, in its sentences as in its views."""

from __future__ import annotations

import numpy as np

from ..labels import short_names
from ..trace import Trace
from ..trace.arrays import BoolArray


def name_labels(trace: Trace) -> dict[str, str]:
    """Return what to write for every name of the slices; no two names get the same.

    Examples
    --------
    >>> from notebook_prof.testing import draw
    >>> name_labels(draw("main: [aten::mm]"))
    {'aten::mm': 'mm'}
    """
    names = [str(name) for name in trace.slices["name"].astype("category").cat.categories]
    return dict(zip(names, short_names(names, kernel_names(trace).tolist()), strict=True))


def kernel_names(trace: Trace) -> BoolArray:
    """Return which names of the slices ran on a device.

    Returns
    -------
    ndarray of bool, shape (names,)
    """
    column, tracks = trace.slices["name"].astype("category").cat, trace.tracks
    streams = tracks.loc[tracks["kind"] == "stream", "track"].to_numpy()
    on_stream = np.isin(trace.slices["track"].to_numpy(), streams)
    kernels = np.zeros(len(column.categories) + 1, bool)  # code -1 (no name) falls into the last place
    kernels[column.codes.to_numpy()[on_stream]] = True
    return kernels[:-1]
