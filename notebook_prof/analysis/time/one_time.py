"""Work done once in a run: compilation, loading of code, contexts, graph capture."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from typing import Final

import numpy as np
import pandas as pd

from ...trace import Intervals, Trace, add, union
from ...trace.arrays import BoolArray
from ...trace.intervals import NOTHING, first_claims
from ...trace.schema import Table
from ..busy_time import busy_within
from ..device.kernel_launches import GRAPH_CAPTURE, NO_END, graph_captures, launch_calls
from ..scope import Scope, WindowLike, bounds, length_within, on_device, on_host, step_spans
from .host_states import copy_calls, waiting
from .phases import stepping_track
from .thread_time import judged_span

KINDS: Final = ("compilation", "loading", "graph-capture", "initialisation", "first-step")
"""The first of several that claim an instant gets it."""
LONG_NS: Final = 1_000_000
UNUSUAL: Final = 20
"""A runtime call that takes at least this many times the usual length sets something up."""
SLOW: Final = 2.0
"""A first step at least this many times as long as the median step contains one-time work."""
MUCH: Final = 0.1
"""A step with at least this share of one-time work is not steady."""

COMPILATION: Final = re.compile(
    r"nvrtcCompileProgram|hiprtcCompileProgram|XlaCompile\w*|\S*::Compile(?:AndLoad)?|backend_compile\w*"
    r"|_?compile_fx\w*|async_compile\w*|.*torch/_dynamo/convert_frame\.py\(\d+\): (?:_compile|compile_inner)"
    r"|(?:_compile\.compile_inner|OutputGraph\.call_user_compiler|fx_codegen_and_compile|backend_compile)\b.*"
    r"|entire_\w+_compile\b.*"
    r"|.*triton/compiler/compiler\.py\(\d+\): compile|.*cupy/cuda/compiler\.py\S* _?compile\w*"
)
LOADING: Final = re.compile(
    r"(?:cu|hip)(?:Module|Library)Load\w*|Lazy Function Loading|Runtime Triggered Module Loading"
    r"|(?:cuda|hip)GetDriverEntryPoint\w*|Activity Buffer Request"
)
_CONTEXT: Final = re.compile(r"cuCtxCreate\w*|cuDevicePrimaryCtxRetain\w*|cuInit|hipInit|hipCtxCreate")
_INSTANTIATE: Final = re.compile(r"(?:cuda|cu|hip)Graph(?:Instantiate\w*|ExecUpdate\w*|Upload\w*)")
_ENOUGH: Final = 4
_COLUMNS: Final = Table.of("one_time", "kind:str name:str count:int64 ts:int64 total_ns:int64 share:float64")


def one_time(trace: Trace, *, window: WindowLike = None) -> pd.DataFrame:
    """List one-time work that took time of the steps or, without steps, of the run.

    Parameters
    ----------
    window : (int, int), optional
        Half-open, in ns.

    Returns
    -------
    DataFrame
        ``kind name count ts total_ns share``, one row per kind, longest first; empty if nothing was found.

        - ``compilation``: of graphs and kernels (TorchDynamo, Inductor, Triton, XLA, NVRTC, CuPy);
        - ``loading``: of code onto a device, and for the recorder;
        - ``graph-capture``: from start to end of a capture, and instantiation of the graph;
        - ``initialisation``: contexts, and calls of a runtime, other than copies, that take over 1 ms and at
          least 20 times as long as other calls of this name while the devices are idle, but not repeatedly;
        - ``first-step``: the time by which the first of at least four steps exceeds the median of the others,
          if it is at least twice as long, without the kinds above.

    Notes
    -----
    An instant belongs to the first of these kinds. Only the thread of the steps and threads that launch work
    count.

    Examples
    --------
    >>> from notebook_prof.testing import draw
    >>> trace = draw("main: [cuModuleLoadData     ][mm]", categories={"cuModuleLoadData": "launch"})
    >>> one_time(trace)[["kind", "name", "total_ns"]].values.tolist()
    [['loading', 'cuModuleLoadData', 23]]
    """
    start, end = judged_span(trace, window)
    total = int((end - start).sum())
    by_kind = _by_kind(trace)
    rows = []
    claims = first_claims(spent for _, spent in by_kind.values())
    for (kind, (slices, _)), own in zip(by_kind.items(), claims, strict=True):
        if spent := int(length_within(own, start, end).sum()):
            rows.append((kind, *_longest_name(slices), spent))
    steps = step_spans(trace, window)
    loaders = trace.metadata.get("loaders")
    ahead = [  # batches that workers prefetch while the first step waits
        int(row.get("num_workers", 0)) * int(row.get("prefetch_factor", 0))
        for row in (loaders if isinstance(loaders, list) else [])
        if isinstance(row, Mapping)
    ]
    if (excess := _excess(steps)) and len(steps) > max(ahead, default=0):
        begin, until = bounds(steps[:1])
        if (left := excess - int(length_within(_union(by_kind), begin, until).sum())) > 0:
            rows.append(("first-step", f"step {steps['step'].iloc[0]}", 1, int(begin[0]), left))
    rows.sort(key=lambda row: -row[4])
    return _COLUMNS.of_tuples([(*row, row[4] / max(total, 1)) for row in rows])


def steady_steps(trace: Trace, window: WindowLike = None) -> list[int]:
    """Return the numbers of steps with less than 10 % one-time work, except a slow first step."""
    # If at most half of the steps would remain, return all: then the work is not one-time.
    steps = step_spans(trace, window)
    start, end = bounds(steps)
    clean = length_within(_union(_by_kind(trace)), start, end) < MUCH * np.maximum(end - start, 1)
    if len(steps) and _excess(steps):
        clean[0] = False
    numbers: list[int] = steps["step"][clean if clean.sum() > len(steps) / 2 else slice(None)].tolist()
    return numbers


def _union(by_kind: Mapping[str, tuple[Scope, Intervals]]) -> Intervals:
    return functools.reduce(add, (spent for _, spent in by_kind.values()))


def _by_kind(trace: Trace) -> dict[str, tuple[Scope, Intervals]]:
    """Return the slices and intervals of each kind except ``first-step``; kinds may overlap."""
    host = on_host(trace)
    call = launch_calls(trace)
    tracks = np.unique(trace.slices["track"].to_numpy()[call[call >= 0]])
    stepping = host.only(np.isin(host.ints("track"), np.append(tracks, stepping_track(trace))))
    keep = {
        "compilation": stepping.named(COMPILATION.fullmatch),
        "loading": stepping.named(LOADING.fullmatch),
        "graph-capture": stepping.named(_INSTANTIATE.fullmatch),
        "initialisation": _unusual(trace, stepping) | stepping.named(_CONTEXT.fullmatch),
    }
    whole = {kind: (stepping.only(mask), stepping.open(mask)) for kind, mask in keep.items()}
    captures = _captures(stepping)
    if len(captures[0]):
        ends = stepping.only(keep["graph-capture"] | stepping.named(GRAPH_CAPTURE.fullmatch))
        whole["graph-capture"] = (ends, add(whole["graph-capture"][1], captures))
    return whole


def _unusual(trace: Trace, thread: Scope) -> BoolArray:
    """Find runtime calls that last much longer than others of their name while devices are mostly idle."""
    dur = thread.end - thread.ts
    calls = thread.among("category", ("launch",)) & ~waiting(trace, thread) & ~copy_calls(thread)
    long = calls & (dur >= LONG_NS)
    if not long.any():
        return long
    code = thread.codes("name")
    usual = pd.Series(dur[calls]).groupby(code[calls]).agg(["median", "size"])
    at = usual.reindex(code[long])
    often = (at["size"] > 1).to_numpy()
    long[long] &= np.where(
        often, dur[long] >= UNUSUAL * at["median"].to_numpy(), dur[long] >= UNUSUAL * LONG_NS
    )
    busy = busy_within(on_device(trace), thread.ts[long], thread.end[long])
    long[long] &= 2 * busy < dur[long]
    # a name is slow again and again if a fifth of three or more slow calls are among the last third of all
    number = pd.Series(code[calls]).groupby(code[calls]).cumcount().to_numpy()
    late = np.zeros(len(calls), bool)
    late[calls] = 3 * number >= 2 * usual["size"].reindex(code[calls]).to_numpy()
    of_name = pd.Series(late[long]).groupby(code[long])
    long[long] &= ~((of_name.transform("size") >= 3) & (of_name.transform("mean") >= 1 / 5)).to_numpy(bool)
    return long


def _captures(stepping: Scope) -> Intervals:
    """Return the intervals from the start of each graph capture to its end, on the same thread."""
    captures = NOTHING
    for _, begins, ends in graph_captures(stepping):
        closed = ends < NO_END
        captures = add(captures, union(begins[closed], ends[closed]))
    return captures


def _longest_name(slices: Scope) -> tuple[str, int, int]:
    """Return the name that takes most time; the number of all these slices, and the first start."""
    names, code = slices.slices["name"].cat.categories, slices.codes("name")
    most = int(np.bincount(code, slices.end - slices.ts).argmax())
    return str(names[most]), len(slices.rows), int(slices.ts.min())


def _excess(steps: pd.DataFrame) -> int:
    """Return the ns by which the first step exceeds the median of the others; 0 if it is not slow."""
    dur = steps["dur"].to_numpy()
    if len(dur) < _ENOUGH:
        return 0
    usual = float(np.median(dur[1:]))
    return round(dur[0] - usual) if usual and dur[0] >= SLOW * usual else 0
