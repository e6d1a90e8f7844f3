"""Names that hold memory, and what a cell left behind."""

from __future__ import annotations

from typing import Any, Final, Literal, get_args

import numpy as np
import pandas as pd

from ...errors import OptionError, nearest
from ...trace import Trace
from ...trace.schema import Table
from ..notebook.recorded import is_notebook
from ..scope import ints, recorded_table
from .curve import memory_live

Moment = Literal["recording", "cell"]
MAPPED: Final = "file"
REMAINDERS: Final = ("unnamed", "cached", "outside", "not resident")
"""Kinds of the rows that have no name."""
_GROWS_IN: Final = 0.8
FEWEST_STEPS: Final = 2

NAMES: Final = Table.of(
    "memory_names",
    "name:str kind:str type:str device:int16 buffers:int64 bytes:int64 share:float64 new_bytes:Int64 "
    "bytes_per_step:Int64 created_line:str operator:str kept_by:str slice:Int64 moment:str",
)
LEFT: Final = Table.of(
    "memory_left_behind", "name:str device:int16 buffers:int64 bytes:int64 created_line:str release:str"
)


def memory_names(trace: Trace, *, at: Moment | None = None, device: int | None = None) -> pd.DataFrame:
    """List the variables that hold memory, and memory without a name.

    Parameters
    ----------
    at : {"recording", "cell"}, optional
        The end of the recording, or the end of the cell, which is later if only some steps were recorded.
        Without it: the end of the recording, and names that hold more at the end of the cell.
    device : int, optional
        Keep this one; -1 is the host.

    Returns
    -------
    DataFrame
        Names first, then memory without a name, each by `bytes`, most first; empty if no names were recorded
        (a profiled cell or ``nbp.profile`` with memory records them).

        - ``name`` str: the first one that leads to the buffers, like ``model.0.weight``, ``acts[]`` (all
          elements of a list), ``opt.state[model.0.weight]['exp_avg']``, ``df[price]``, ``Out[9]``,
          ``traceback: train:12 › x``, ``loss › MmBackward0`` (saved by that function of its graph); missing
          without one;
        - ``kind`` str: ``parameter gradient buffer optimizer tensor array column arrow bytes``; ``saved`` for
          the backward pass; ``objects``: Python objects, an estimate, from 64 KiB on; ``file``: a mapped
          file, whose pages do not count; ``unnamed``: recorded blocks without a name, or freed in a thread
          that was not recorded; ``cached`` by the allocator; ``outside``: all other memory in use; ``not
          resident``: negative, named memory that has not been touched yet;
        - ``type`` str: type and shape, or the number of objects; ``device`` int16 (-1: host);
        - ``buffers`` int64: a buffer shared by several names counts once; ``bytes`` int64: of whole buffers,
          even if a name is only a view of a part;
        - ``share`` float64 of memory in use: resident memory of the process on the host, all used memory on
          other devices;
        - ``new_bytes`` Int64: of buffers that had no name when the cell began; missing if that was not
          recorded;
        - ``bytes_per_step`` Int64: median growth per step, 0 if the name does not grow. Without recorded
          allocations (NumPy, pandas, Python) it is the name's growth over the recorded steps divided by their
          number; missing with fewer than four steps, and for those names if no step ran before the recorded
          ones (``--steps 3:14`` skips some);
        - ``created_line``, ``operator`` str, ``slice`` Int64: of the allocation of the largest recorded
          buffer; missing if none was recorded;
        - ``kept_by`` str: up to four more names;
        - ``moment`` str: ``recording`` or ``cell``, at whose end the row holds; for ``cell``, the allocation
          and the growth per step are missing;
        - for a notebook also ``made_in``, ``used_in`` str: the cell after which the largest buffer was first
          seen, such as ``In[4]``, and the last one that reads the name (see `path`).

    Notes
    -----
    For each device, ``bytes`` of all rows of one `at` except ``file`` sum to what is used: named + saved for
    backward + unnamed + cached + outside = used. A name grows if in four of five steps, not counting the
    first and the last, it allocated memory that it still holds at the end.
    """
    if at is None:
        names = memory_names(trace, at="recording", device=device)
        if not _has_moment(trace, "cell"):
            return names
        later = memory_names(trace, at="cell", device=device)
        later = later[later["name"].notna()]
        held = names[names["name"].notna()].set_index(_KEYS)["bytes"]
        before = held.reindex(pd.MultiIndex.from_frame(later[_KEYS]), fill_value=0)
        more = later[later["bytes"].to_numpy() > before.to_numpy()]  # the names that hold more memory later
        return NAMES.frame(_sorted(pd.concat([names, more], ignore_index=True)))
    if at not in get_args(Moment):
        raise OptionError(f"at={at!r} is not an instant with names: {nearest(at, get_args(Moment))}")
    moment = at if _has_moment(trace, at) else "recording"
    buffers = _of_moment(trace, "memory_names", moment)
    if buffers is None:
        return NAMES.empty()
    last = int(trace.allocations["ts"].max()) if len(trace.allocations) else 0
    blocks = memory_live(trace, last).rename(columns={"bytes": "block_bytes"})
    blocks = blocks[["addr", "device", "block_bytes", "birth_ts", "operator", "line", "slice"]]
    if moment == "cell":  # blocks and growth are known only until the end of the recording
        blocks, buffers = blocks.iloc[:0], buffers.drop(columns="first_step_bytes", errors="ignore")
    buffers = buffers.astype({"address": "uint64"})
    table = pd.concat([_named(trace, _join(buffers, blocks)), _unnamed(blocks, buffers)], ignore_index=True)
    table = pd.concat([table, _remainders(trace, moment, table)], ignore_index=True).assign(moment=moment)
    if device is not None:
        table = table[table["device"] == device]
    made = NAMES.frame(_sorted(table))
    if not is_notebook(trace):
        return made
    from ..notebook.path import with_cells

    return with_cells(trace, made)


def _sorted(table: pd.DataFrame) -> dict[str, Any]:
    rest = table["kind"].map({kind: i + 1 for i, kind in enumerate(REMAINDERS)}).fillna(0)
    table = table.assign(rest=rest).sort_values(["rest", "bytes"], ascending=[True, False], kind="stable")
    return {name: table[name].reset_index(drop=True) for name in NAMES.names}


def _has_moment(trace: Trace, moment: str) -> bool:
    walks = recorded_table(trace, "memory_walks")
    return walks is not None and bool((walks["moment"] == get_args(Moment).index(moment)).any())


def _of_moment(trace: Trace, name: str, moment: str) -> pd.DataFrame | None:
    table = recorded_table(trace, name)
    if table is None:
        return None
    return table[table["moment"] == get_args(Moment).index(moment)].reset_index(drop=True)


def _join(buffers: pd.DataFrame, blocks: pd.DataFrame) -> pd.DataFrame:
    """Return buffers with their recorded allocations, largest first."""
    keys = {"left_on": ["device", "address"], "right_on": ["device", "addr"]}
    table = buffers.merge(blocks.astype({"device": "int64"}), how="left", **keys)
    recorded = table["block_bytes"].notna().to_numpy()
    table["bytes"] = table["block_bytes"].fillna(table["bytes"]).astype("int64")
    table["earlier"] = np.where(recorded & (table["earlier"] >= 0).to_numpy(), 0, table["earlier"])
    return table.sort_values("bytes", ascending=False, kind="stable").reset_index(drop=True)


_KEYS: Final = ["name", "kind", "device"]


def _named(trace: Trace, buffers: pd.DataFrame) -> pd.DataFrame:
    """Return one row per name."""
    new = buffers["bytes"].where(buffers["earlier"] == 0, 0)
    buffers = buffers.assign(new_bytes=new, compared=buffers["earlier"] >= 0)
    groups = buffers.groupby(_KEYS, sort=False)
    table = groups.agg(
        buffers=("bytes", "size"),
        bytes=("bytes", "sum"),
        new_bytes=("new_bytes", "sum"),
        compared=("compared", "all"),
        first_type=("type", "first"),
        types=("type", "nunique"),
        created_line=("line", "first"),
        operator=("operator", "first"),
        slice=("slice", "first"),
    )
    compared = table.pop("compared")
    table["new_bytes"] = table["new_bytes"].astype("Int64").mask(~compared)
    counted = table["buffers"].astype("str") + np.where(table["types"] == 1, " × ", " buffers")
    several = counted + table["first_type"].where(table["types"] == 1, "")
    table["type"] = several.where(table["buffers"] > 1, table["first_type"])
    others = buffers[buffers["kept_by"] != ""].groupby(_KEYS, sort=False)["kept_by"]
    others = others.agg(lambda texts: ", ".join([*dict.fromkeys(", ".join(texts).split(", "))][:4]))
    table["kept_by"] = others.reindex(table.index).fillna("")
    growth = _growth(trace, buffers).reindex(table.index).astype("Int64")
    table["bytes_per_step"] = growth.fillna(_growth_of_looks(trace, buffers).reindex(table.index))
    return table.drop(columns=["first_type", "types"]).reset_index()


def _growth(trace: Trace, buffers: pd.DataFrame) -> pd.Series[Any]:
    """Return each name's median growth per step; 0 if it does not grow, missing if unknown."""
    start = np.sort(trace.steps["ts"].to_numpy())
    inner = len(start) - 2
    birth = ints(buffers["birth_ts"])
    recorded = buffers[birth >= 0]
    if inner < FEWEST_STEPS or not len(recorded):
        return pd.Series([], dtype="Int64", index=pd.MultiIndex.from_arrays([[], [], []], names=_KEYS))
    number = np.searchsorted(start, birth[birth >= 0], side="right") - 1
    recorded = recorded.assign(place=number)
    inside = recorded[(number >= 1) & (number <= inner)]
    each = inside.groupby([*_KEYS, "place"], sort=False)["bytes"].sum().reset_index()
    steps = each.groupby(_KEYS, sort=False)["bytes"].agg(["median", "count"])
    grows = steps["median"].where(steps["count"] >= _GROWS_IN * inner, 0).round().astype("int64")
    names = recorded.groupby(_KEYS, sort=False).size()
    return grows.reindex(names.index, fill_value=0)


def _growth_of_looks(trace: Trace, buffers: pd.DataFrame) -> pd.Series[Any]:
    """Return the growth per step of names without recorded allocations."""
    names = buffers.groupby(_KEYS, sort=False)
    table = names.agg(bytes=("bytes", "sum"), recorded=("birth_ts", "count"))
    if "first_step_bytes" not in buffers or len(trace.steps) < FEWEST_STEPS + 2:
        return pd.Series(pd.NA, index=table.index, dtype="Int64")
    before = names["first_step_bytes"].max()
    added = (table["bytes"] - before).clip(lower=0) / len(trace.steps)
    return added.round().astype("Int64").mask((before <= 0) | (table["recorded"] > 0))


def _unnamed(blocks: pd.DataFrame, buffers: pd.DataFrame) -> pd.DataFrame:
    """Return blocks without a name, grouped by the operator and line that allocated them."""
    named = pd.MultiIndex.from_frame(buffers[["device", "address"]])
    keys = pd.MultiIndex.from_frame(blocks[["device", "addr"]].astype({"device": "int64"}))
    groups = blocks[~keys.isin(named)].groupby(["device", "operator", "line"], dropna=False, sort=False)
    table = groups.agg(
        buffers=("block_bytes", "size"), bytes=("block_bytes", "sum"), slice=("slice", "first")
    )
    table = table.reset_index().rename(columns={"line": "created_line"})
    return _as_rows(table, "unnamed")


def _as_rows(table: pd.DataFrame, kind: str | pd.Series[str]) -> pd.DataFrame:
    nothing = pd.array([pd.NA] * len(table), dtype="Int64")
    table = table.assign(name=None, kind=kind, type="", kept_by="", new_bytes=nothing, bytes_per_step=nothing)
    missing = {name: None for name in ("operator", "created_line") if name not in table}
    return table.assign(**missing, **({} if "slice" in table else {"slice": nothing}))


def _remainders(trace: Trace, moment: str, table: pd.DataFrame) -> pd.DataFrame:
    """Return rows for unnamed, cached and outside memory, from recorded levels; set the shares of `table`."""
    levels = _of_moment(trace, "memory_levels", moment)
    counted = table[table["kind"] != MAPPED].groupby("device")["bytes"].sum()
    rows: list[dict[str, Any]] = []
    used = counted.to_dict()
    for level in [] if levels is None else levels.to_dict("records"):
        device = level["device"]
        total = int(counted.get(device, 0))
        older = max(level["allocated"] - total, 0) if level["allocated"] >= 0 else 0
        others = level["used"] - total - older - level["cached"]
        kinds = {"unnamed": older, "cached": level["cached"]}
        kinds["outside" if others >= 0 else "not resident"] = others
        used[device] = level["used"]
        rows += [{"device": device, "kind": kind, "bytes": size} for kind, size in kinds.items() if size]
    table["share"] = _share(table, used)
    more = pd.DataFrame(rows, columns=["device", "kind", "bytes"]).assign(buffers=0)
    more = _as_rows(more.astype({"device": "int64", "bytes": "int64"}), more["kind"])
    return more.assign(share=_share(more, used))


def _share(table: pd.DataFrame, used: dict[Any, int]) -> Any:
    whole = table["device"].map(used).astype("float64").clip(lower=1).to_numpy()
    return np.where(table["kind"] == MAPPED, 0.0, table["bytes"].to_numpy() / whole)


_ROOT: Final = r"^(Out\[\d+\]|traceback: [^›]*[^›\s]|in [^›]*[^›\s]|[^\W\d]\w*)"
_VARIABLE: Final = r"Out\[\d+\]|[^\W\d]\w*"
_FORGET_ERROR: Final = "sys.last_exc = sys.last_value = sys.last_traceback = None"


def memory_left_behind(trace: Trace) -> pd.DataFrame:
    """List what a cell left in memory: buffers that had no name when it began.

    Returns
    -------
    DataFrame
        By `bytes`, most first; empty if nothing is new, or if names were not recorded before or after the
        cell.

        - ``name`` str: the variable (``model`` for ``model.0.weight``), ``Out[9]`` or
          ``traceback: train:12`` that leads to the buffers;
        - ``device`` int16 (-1: host); ``buffers``, ``bytes`` int64;
        - ``created_line`` str: the line that allocated the largest of them; missing if not recorded;
        - ``release`` str: the statement that releases all its known names.

    Notes
    -----
    The memory is that at the end of the cell, even if only some of its steps were recorded.
    """
    names = memory_names(trace, at="cell")
    new = names[(names["new_bytes"] > 0).fillna(False).to_numpy(bool)]
    if not len(new):
        return LEFT.empty()
    holders = new["name"]
    new = new.assign(
        root=holders.str.extract(_ROOT)[0].fillna(holders), leads=holders + ", " + new["kept_by"]
    )
    groups = new.groupby(["root", "device"], sort=False)
    table = groups.agg(
        buffers=("buffers", "sum"),
        bytes=("new_bytes", "sum"),
        created_line=("created_line", "first"),
        leads=("leads", ", ".join),
    ).reset_index()
    releases = []  # statements that release variables, results and the last error
    for leads in table.pop("leads"):
        leading = pd.Series([name.strip() for name in leads.split(", ") if name.strip()])
        roots = leading.str.extract(_ROOT)[0].dropna().drop_duplicates()
        variables = roots[roots.str.fullmatch(_VARIABLE)].tolist()
        parts = [f"del {', '.join(variables)}"] if variables else []
        releases.append("; ".join(parts + [_FORGET_ERROR] * bool(roots.str.startswith("traceback").any())))
    table["release"] = releases
    table = table.rename(columns={"root": "name"})
    table = table.sort_values("bytes", ascending=False, kind="stable").reset_index(drop=True)
    return LEFT.frame({name: table[name] for name in LEFT.names})
