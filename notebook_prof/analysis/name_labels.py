"""What is written for the names of a trace, in its sentences as in its views."""

from __future__ import annotations

import numpy as np

from ..labels import short_names
from ..trace import Trace


def name_labels(trace: Trace) -> dict[str, str]:
    """Return what to write for every name of the slices; no two names get the same.

    Examples
    --------
    >>> from notebook_prof.testing import draw
    >>> name_labels(draw("main: [aten::mm]"))
    {'aten::mm': 'mm'}
    """
    column, tracks = trace.slices["name"].astype("category").cat, trace.tracks
    names = [str(name) for name in column.categories]
    streams = tracks.loc[tracks["kind"] == "stream", "track"].to_numpy()
    on_stream = np.isin(trace.slices["track"].to_numpy(), streams)
    kernels = np.zeros(len(names) + 1, bool)  # code -1 (no name) falls into the last place
    kernels[column.codes.to_numpy()[on_stream]] = True
    return dict(zip(names, short_names(names, kernels[:-1].tolist()), strict=True))
