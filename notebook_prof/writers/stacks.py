"""Call stacks with weights, as collapsed text or speedscope's JSON."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

import numpy as np

from ..atomic_files import atomic_text
from ..errors import OptionError, nearest
from ..trace import Trace
from ..trace.arrays import IntArray, distinct_paths
from ..trace.intervals import as_ints
from ..trace.redaction import without_source
from ..trace.taxonomy import DEVICE_CATEGORIES

METRICS: Final = ("self_ns", "device_ns")
_TORCH_METRICS: Final = {
    "self_cpu_time_total": "self_ns",
    "self_cuda_time_total": "device_ns",
    "self_device_time_total": "device_ns",
}
FORMATS: Final = ("collapsed", "speedscope")
_SCHEMA: Final = "https://www.speedscope.app/file-format-schema.json"


def export_stacks(
    trace: Trace,
    path: str | os.PathLike[str],
    metric: str = "self_ns",
    *,
    format: Literal["collapsed", "speedscope"] | None = None,
    source: bool = True,
) -> None:
    """Write the distinct call paths of a Trace with their weights.

    Parameters
    ----------
    trace : Trace
    path : path
        An existing file is replaced.
    metric : {"self_ns", "device_ns"}
        Self time on the host, or the device time launched from a path; that path ends in the kernel.
        PyTorch's ``self_cpu_time_total``, ``self_cuda_time_total`` and ``self_device_time_total`` are
        aliases.
    format : {"collapsed", "speedscope"}, optional
        Lines ``outer;inner 1234`` for ``flamegraph.pl``, or JSON for speedscope.app; by default speedscope if
        the path ends in ``.json``. Weights are integer nanoseconds.
    source : bool
        False leaves out source, file names, values of strings, and names of variables and annotations.

    Raises
    ------
    OptionError
        For another `metric` or `format`.

    Notes
    -----
    A path is a chain of nested slices on a track; equal paths of several tracks are merged. Paths are in
    order of their first appearance, outer paths first. In collapsed text a semicolon in a name becomes a
    colon. `notebook_prof.read_trace` reads both formats. The weights of PyTorch's ``export_stacks`` are
    microseconds.

    Examples
    --------
    >>> import tempfile
    >>> from notebook_prof import TraceBuilder
    >>> b = TraceBuilder()
    >>> _ = b.slices(ts=[0, 2, 20], dur=[9, 3, 4], name=["step", "mm", "step"], track=b.track("main"))
    >>> file = Path(tempfile.mkdtemp()) / "stacks.txt"
    >>> export_stacks(b.seal(), file)
    >>> print(file.read_text(), end="")
    step 10
    step;mm 3
    """
    trace = trace if source else without_source(trace)
    metric = _TORCH_METRICS.get(metric, metric)
    if metric not in METRICS:
        raise OptionError(f"stacks have no weight {metric!r}: {nearest(metric, METRICS)}")
    target = Path(path)
    chosen = format or ("speedscope" if target.suffix == ".json" else "collapsed")
    if chosen not in FORMATS:
        raise OptionError(f"stacks cannot be written as {chosen!r}: {nearest(chosen, FORMATS)}")
    paths = _paths(trace, metric)
    with atomic_text(target) as file:
        if chosen == "speedscope":
            file.write(json.dumps(_speedscope(trace, paths, metric)))
        else:
            file.writelines(_collapsed(trace, paths))


class _Paths(NamedTuple):
    """Distinct call paths; parents come before children."""

    parent: IntArray  # the path without its last slice; -1 at the root
    weight: IntArray  # ns
    slice: IntArray  # row of the first slice with this path


def _paths(trace: Trace, metric: str) -> _Paths:
    slices = trace.slices
    name = slices["name"].cat.codes.to_numpy().astype(np.int64)
    above = as_ints(slices["parent"].to_numpy(dtype=np.int64, na_value=-1))
    depth = slices["depth"].to_numpy().astype(np.int64)
    streams = trace.tracks.loc[trace.tracks["kind"] == "stream", "track"]
    on_device = slices["track"].isin(streams).to_numpy()
    own = slices["self_ns"].to_numpy()
    if metric == "device_ns":
        works = on_device & slices["category"].isin(list(DEVICE_CATEGORIES)).to_numpy()
        # a kernel's parent is its launch; without a launch it is a root
        above[works], depth[works] = -1, 0
        launch = trace.flows[(trace.flows["kind"] == "launch").to_numpy()]
        src, dst = launch["src"].to_numpy(), launch["dst"].to_numpy()
        above[dst], depth[dst] = src, depth.max(initial=0) + 1
    else:
        works = ~on_device
    node, parent, first = distinct_paths(name, above, depth)
    weight = np.bincount(node, np.where(works, own, 0), minlength=len(parent)).astype(np.int64)
    return _Paths(parent, weight, first)


def _walk(paths: _Paths) -> Iterator[tuple[int, int]]:
    """Yield paths with their depth, each before its children, siblings by first appearance."""
    inside: dict[int, list[int]] = {}
    for i in np.argsort(paths.slice, kind="stable")[::-1].tolist():
        inside.setdefault(int(paths.parent[i]), []).append(i)
    todo = [(i, 0) for i in inside.get(-1, [])]
    while todo:
        i, depth = todo.pop()
        yield i, depth
        todo.extend((child, depth + 1) for child in inside.get(i, []))


def _collapsed(trace: Trace, paths: _Paths) -> Iterator[str]:
    slices = trace.slices["name"]
    safe = str.maketrans({";": ":", "\n": " ", "\r": " "})
    words = [str(word).translate(safe) for word in slices.cat.categories]
    code = slices.cat.codes.to_numpy()
    stack: list[str] = []
    for i, depth in _walk(paths):
        stack[depth:] = [words[code[paths.slice[i]]]]
        if paths.weight[i] > 0:
            yield f"{';'.join(stack)} {paths.weight[i]}\n"


def _speedscope(trace: Trace, paths: _Paths, metric: str) -> dict[str, Any]:
    frame_of = _frames(trace, paths.slice)
    numbers: dict[tuple[tuple[str, Any], ...], int] = {}
    samples: list[list[int]] = []
    weights: list[int] = []
    stack: list[tuple[tuple[str, Any], ...]] = []
    for i, depth in _walk(paths):
        stack[depth:] = [frame_of[i]]
        if paths.weight[i] > 0:
            samples.append([numbers.setdefault(frame, len(numbers)) for frame in stack])
            weights.append(int(paths.weight[i]))
    profile = {"type": "sampled", "name": metric, "unit": "nanoseconds", "startValue": 0}
    profile |= {"endValue": sum(weights), "samples": samples, "weights": weights}
    return {
        "$schema": _SCHEMA,
        "exporter": "notebook_prof",
        "name": metric,
        "activeProfileIndex": 0,
        "shared": {"frames": [dict(frame) for frame in numbers]},
        "profiles": [profile],
    }


def _frames(trace: Trace, rows: IntArray) -> list[tuple[tuple[str, Any], ...]]:
    """Return the name of each slice, with file and line if its stack identifies it as that function."""
    chosen = trace.slices.iloc[rows]
    key = chosen["stack"].to_numpy(dtype=np.int64, na_value=-1)
    stacks = trace.stacks
    functions, files = stacks["name"].to_numpy(object), stacks["file"].to_numpy(object)
    lines = stacks["line"].to_numpy(dtype=np.int64, na_value=0)
    frames: list[tuple[tuple[str, Any], ...]] = []
    for name, k in zip(chosen["name"].astype(str).tolist(), key.tolist(), strict=True):
        if k < 0 or not (name == functions[k] or name.startswith(f"{functions[k]} (")):
            frames.append((("name", name),))
            continue
        file = (("file", files[k]),) if files[k] else ()
        line = (("line", int(lines[k])),) if lines[k] > 0 else ()
        frames.append((("name", functions[k]), *file, *line))
    return frames
