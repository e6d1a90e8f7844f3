"""Compilations by ``torch.compile``: when, how long, and why repeated."""

from __future__ import annotations

from typing import Final

import numpy as np
import pandas as pd

from ...trace import Trace
from ...trace.arrays import optional
from ...trace.schema import Table
from ..scope import WindowLike, recorded_table, steps_at

COMPILATIONS: Final = Table.of(
    "compilations",
    "ts:int64 dur:int64 step:Int64 id:str function:str place:str resumed:bool backward:bool "
    "dynamo_ns:int64 aot_ns:int64 inductor_ns:int64 codegen_ns:int64 operators:int64 guards:int64 "
    "cached:bool guard:str guard_place:str failure:str",
)

FUSED_KERNELS: Final = Table.of(
    "fused_kernels",
    "kernel:str operators:str backward:bool file:str line:int64 text:str exact:bool slices:int64 "
    "total_ns:int64",
)

GRAPH_BREAKS: Final = Table.of("graph_breaks", "place:str function:str reason:str count:int64 total_ns:int64")


def compilations(trace: Trace, *, window: WindowLike = None) -> pd.DataFrame:
    """List the compilations by ``torch.compile`` while the cell ran, including outside the recorded steps.

    Parameters
    ----------
    window : (int, int), optional
        Half-open, in ns: keep compilations that began in it.

    Returns
    -------
    DataFrame
        By `ts`; empty if nothing was compiled or compilations were not recorded.

        - ``ts``, ``dur`` int64: ns; before the first recorded instant `ts` is negative;
        - ``step`` Int64: the recorded step in which it began, missing for none;
        - ``id`` str: TorchDynamo's, like ``0/1``: number of the function, and of its earlier compilations;
        - ``function`` str; ``place`` str: where it begins, or continues after a graph break, as ``cell:4``;
          both empty for a backward graph;
        - ``resumed`` bool: it continues after a graph break; ``backward`` bool;
        - ``dynamo_ns``, ``aot_ns``, ``inductor_ns``, ``codegen_ns`` int64: time of TorchDynamo, AOTAutograd,
          Inductor and code generation, including the C++ and Triton compilers; they sum to `dur`;
        - ``operators`` int64: number in the graph; ``guards`` int64: number of conditions for its reuse;
        - ``cached`` bool: the code came from a cache on disk;
        - ``guard`` str: the condition that failed, empty for a first compilation; ``guard_place`` str: its
          line, if reported;
        - ``failure`` str: why it could not be compiled; otherwise empty.

    Notes
    -----
    A live recording uses ``torch._dynamo.utils.get_compilation_metrics()``, which has the latest 64. The logs
    that PyTorch writes to the folder ``TORCH_TRACE`` have all of them.
    """
    table = recorded_table(trace, "compilations")
    if table is None:
        return COMPILATIONS.empty()
    if window is not None:
        table = table[(table["ts"] >= window[0]) & (table["ts"] < window[1])]
    table = table.sort_values("ts", kind="stable")
    return COMPILATIONS.frame(
        {
            **{name: table[name].to_numpy() for name in COMPILATIONS.names if name in table},
            "step": optional(steps_at(trace, table["ts"].to_numpy())),
            "place": _places(table["file"], table["line"]),
            "guard_place": _places(table["guard_file"], table["guard_line"]),
        }
    )


def _places(file: pd.Series[str], line: pd.Series[int]) -> list[str]:
    places: list[str] = (file.astype(str) + ":" + line.astype(str)).where(file != "", "").tolist()
    return places


def fused_kernels(trace: Trace) -> pd.DataFrame:
    """List the operators and the lines that Inductor fused into each kernel.

    Returns
    -------
    DataFrame
        One row per kernel and line, by the kernel's `total_ns`, longest first, then by line; empty if
        Inductor compiled nothing or compilations were not recorded.

        - ``kernel`` str: the name of its slices; ``operators`` str, like ``add, mul, relu``; ``backward``
          bool: it belongs to a backward graph, whose lines are unknown;
        - ``file line text``: a user's line that became part of the kernel; `line` is 0 if unknown;
        - ``exact`` bool: Inductor names the line, or no other kernel of its graph has such an operator;
          otherwise the line is part of one of several kernels;
        - ``slices`` int64, ``total_ns`` int64: of the kernel, repeated in each of its rows; 0 if it did not
          run during the recording.

    Notes
    -----
    The source is comments in the modules that Inductor writes. C++ for the host has none: there the operators
    come from the kernel's name, and the lines from the graph's nodes with these operators.
    """
    table = recorded_table(trace, "fused_kernels")
    if table is None:
        return FUSED_KERNELS.empty()
    kernels = table["kernel"].astype("str")
    slices = trace.slices[trace.slices["name"].isin(kernels)]
    # prefer slices on the device: the call that launches a kernel has the same name
    on_device = slices[slices["category"] == "kernel"]
    slices = slices[(slices["category"] == "kernel") | ~slices["name"].isin(on_device["name"])]
    ran = slices["dur"].groupby(slices["name"].astype("str")).agg(["count", "sum"]).reindex(kernels).fillna(0)
    out = FUSED_KERNELS.frame(
        {
            **{column: table[column].to_numpy() for column in FUSED_KERNELS.names if column in table},
            "slices": ran["count"].to_numpy(np.int64),
            "total_ns": ran["sum"].to_numpy(np.int64),
        }
    )
    return out.sort_values(
        ["total_ns", "kernel", "file", "line"], ascending=[False, True, True, True], kind="stable"
    ).reset_index(drop=True)


def graph_breaks(trace: Trace) -> pd.DataFrame:
    """List where compiled functions leave their graph and continue in another.

    Returns
    -------
    DataFrame
        In order of first occurrence; empty without breaks.

        - ``place`` str: the line at which the function continues, like ``cell:6``: the graph broke there, or
          in the previous line; ``function`` str;
        - ``count`` int64: compilations that began there; ``total_ns`` int64: their total time;
        - ``reason`` str: TorchDynamo's, of all breaks of that function.

    Notes
    -----
    A break in a loop, or in a function called by a compiled one, may leave the whole function uncompiled:
    then no graph continues, and `compilations` has the ``failure``, if there is one.
    """
    table = recorded_table(trace, "compilations")
    if table is None or not table["resumed"].any():
        return GRAPH_BREAKS.empty()
    table = table.sort_values("ts", kind="stable")
    why = table[table["restart"] != ""].drop_duplicates(["file", "function", "restart"])
    reasons = why.groupby(["file", "function"])["restart"].agg("; ".join)
    begun = table[table["resumed"]].groupby(["file", "line", "function"], sort=False)["dur"]
    rows = begun.agg(["count", "sum"]).reset_index()
    reason = reasons.reindex(pd.MultiIndex.from_frame(rows[["file", "function"]])).fillna("")
    return GRAPH_BREAKS.frame(
        {
            "place": _places(rows["file"], rows["line"]),
            "function": rows["function"].tolist(),
            "reason": reason.tolist(),
            "count": rows["count"].to_numpy(),
            "total_ns": rows["sum"].to_numpy(),
        }
    )
