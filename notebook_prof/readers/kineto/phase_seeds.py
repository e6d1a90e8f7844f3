"""Phases and modules of the rows that prove them. Nested rows inherit them in the builder."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import pandas as pd

from ...trace.arrays import BoolArray, IntArray
from ...trace.intervals import contains, union
from ...trace.nesting import nest
from ...trace.strings import Coded
from ...trace.taxonomy import CATEGORIES, EVALUATION_SUFFIX, MODULE_PREFIX, PHASES, phase_of
from .activity_types import module_name, rows_of
from .columns import KinetoColumns
from .instant_events import Links

_OPTIMIZER_STEP = "Optimizer.step#"
_MODULE = CATEGORIES.index("module")
_OPERATOR = CATEGORIES.index("operator")
_COLLECTIVE = CATEGORIES.index("collective")


def phases(
    columns: KinetoColumns, category: Coded, track: IntArray, nodes: BoolArray, forward: Links
) -> Coded:
    """Return the phase of every row that does not inherit it, as codes into `PHASES`; -1 for the others."""
    # Data, backward, optimizer and communication follow from names (and from backward nodes). Forward rows
    # are outside these and either belong to the autograd graph (they have a sequence number) or are module
    # calls. Evaluation is a module call in eval mode or without gradients, unless something in it has a
    # backward. Rows of an optimizer's closure are forward and backward. All other rows stay open.
    code = {phase: i for i, phase in enumerate(PHASES)}
    named = [code.get(phase_of(name) or "", -1) for name in columns.name.values]
    result = np.append(np.array(named, np.int8), np.int8(-1))[columns.name.codes]
    result[(columns.fwd_thread > 0) & (columns.sequence >= 0) & (result < 0)] = code["backward"]
    result[nodes] = code["backward"]
    result[np.asarray(category.codes) == _COLLECTIVE] = code["communication"]
    differentiable = (category.codes == _OPERATOR) & (columns.sequence >= 0) & (columns.fwd_thread == 0)
    weak = (result < 0) & (columns.device < 0) & (differentiable | (category.codes == _MODULE))
    strong = (result >= 0) & (columns.device < 0) & ~_with_closure(columns, nodes)
    evaluates = _evaluates(columns, track, differentiable, forward)
    rows = np.flatnonzero(weak)
    for number in pd.unique(track[rows]):
        of_track = rows[track[rows] == number]
        inside = strong & (track == number)
        occupied = union(columns.ts[inside], (columns.ts + columns.dur)[inside])
        free = of_track[~contains(occupied, columns.ts[of_track])]
        result[free] = code["forward"]
        judged = evaluates & (track == number)
        if judged.any():
            without = union(columns.ts[judged], (columns.ts + columns.dur)[judged])
            result[free[contains(without, columns.ts[free])]] = code["evaluation"]
            _fetch_for_evaluation(columns, np.flatnonzero(track == number), result, code)
    return Coded(result, PHASES)


def _fetch_for_evaluation(
    columns: KinetoColumns, rows: IntArray, result: npt.NDArray[np.int8], code: Mapping[str, int]
) -> None:
    """Count a batch as evaluation if evaluation comes next on its track, before any forward."""
    of = result[rows]
    fetched = rows[of == code["data"]]
    done = (columns.ts + columns.dur)[fetched]
    later = {}
    for phase in ("evaluation", "forward"):
        begins = np.append(np.sort(columns.ts[rows[of == code[phase]]]), np.iinfo(np.int64).max)
        later[phase] = begins[np.searchsorted(begins[:-1], done)]
    result[fetched[later["evaluation"] < later["forward"]]] = code["evaluation"]


def _with_closure(columns: KinetoColumns, nodes: BoolArray) -> BoolArray:
    """Return a mask of the optimizer steps in which a backward ran, since they evaluate a closure."""
    named = [name.startswith(_OPTIMIZER_STEP) for name in columns.name.values]
    steps = np.flatnonzero(rows_of(columns.name, np.array(named, bool)) & (columns.device < 0))
    result = np.zeros(len(columns), bool)
    if len(steps):
        backward = np.sort(columns.ts[nodes])
        begins = np.searchsorted(backward, columns.ts[steps])
        ends = np.searchsorted(backward, (columns.ts + columns.dur)[steps])
        result[steps[ends > begins]] = True
    return result


def _evaluates(
    columns: KinetoColumns, track: IntArray, differentiable: BoolArray, forward: Links
) -> BoolArray:
    """Return a mask of the module calls in eval mode or without gradients in which nothing has a backward."""
    # Checkpointing also runs modules without gradients, but inside an operator that has a backward.
    marked = [
        name.startswith(MODULE_PREFIX) and name.endswith(EVALUATION_SUFFIX) for name in columns.name.values
    ]
    result = rows_of(columns.name, np.array(marked, bool))
    for number in pd.unique(track[result]):
        rows = np.flatnonzero(result & (track == number))
        linked = np.sort(columns.ts[forward.src][track[forward.src] == number])
        trained = np.searchsorted(linked, columns.ts[rows]) < np.searchsorted(
            linked, (columns.ts + columns.dur)[rows]
        )
        around = differentiable & (track == number)
        inside = contains(union(columns.ts[around], (columns.ts + columns.dur)[around]), columns.ts[rows])
        result[rows[trained | inside]] = False
    return result


def modules(
    columns: KinetoColumns, category: Coded, track: IntArray, nodes: BoolArray, forward: Links
) -> Coded:
    """Return the modules of module calls and backward nodes or, without module calls, the file's own."""
    # A backward node belongs to the module of its forward operator. ``AccumulateGrad`` has no forward
    # operator. The engine runs it right after the node that produced the gradient, so it gets the module of
    # that node. The code is -1 for rows that inherit their module.
    calls = np.flatnonzero(np.asarray(category.codes) == _MODULE)
    if not len(calls):
        return columns.path if columns.path is not None else Coded(np.full(len(columns), -1, np.int32), [])
    result = np.full(len(columns), -1, np.int32)
    codes, used = pd.factorize(columns.name.codes[calls])
    paths, values = pd.factorize(np.array([module_name(columns.name.values[i]) for i in used], dtype=object))
    result[calls] = paths[codes]
    home = _enclosing(columns, track, calls, forward.src)
    inside = home >= 0
    result[forward.dst[inside]] = result[home[inside]]
    _fill_accumulation(columns, track, nodes, forward.dst, result)
    return Coded(result, [str(value) for value in values])


def _enclosing(columns: KinetoColumns, track: IntArray, outer: IntArray, rows: IntArray) -> IntArray:
    """Return the innermost of the slices `outer` in which each of `rows` starts; -1 for none."""
    both = np.concatenate([outer, rows])
    dur = np.concatenate([columns.dur[outer], np.zeros(len(rows), np.int64)])
    _, parent, _ = nest(track[both], columns.ts[both], dur)
    home = parent[len(outer) :]
    return np.asarray(np.where(home >= 0, both[home], -1))


def _fill_accumulation(
    columns: KinetoColumns, track: IntArray, nodes: BoolArray, linked: IntArray, module: npt.NDArray[np.int32]
) -> None:
    every = np.flatnonzero(nodes)
    every = every[np.lexsort((columns.ts[every], track[every]))]
    numbered = (columns.sequence[every] >= 0) | np.isin(every, linked)
    before = np.maximum.accumulate(np.where(numbered, np.arange(len(every)), -1))
    lonely = ~numbered & (before >= 0)
    source = every[np.maximum(before, 0)]
    lonely &= track[source] == track[every]
    module[every[lonely]] = module[source[lonely]]
