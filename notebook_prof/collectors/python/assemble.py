"""Turns samples into slices, without a loop over samples."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, NamedTuple

import numpy as np

from ...background import checkpoint
from ...trace.arrays import BoolArray, IntArray
from ...trace.builder import TraceBuilder
from ...trace.intervals import as_ints
from ...trace.strings import Coded
from ..journal import Edges
from ..lines.runs import LineRuns, WatchedCode
from .frames import CELL, USER, Frame, Stacks
from .line_names import fused_kernel, keep_source_files, line_name, short_file
from .overlay import Rows, hang, overlay
from .sample_spans import NEVER, SampleSpans, bridged
from .snapping import Ranges, beside_ranges

OTHER_CELLS: Final = "other_cells"
"""Metadata key for the displayed names, such as ``In[3]``, of the files of cells other than the profiled
one."""
_NO_CELLS: Final[Mapping[str, str]] = MappingProxyType({})


class Timed(NamedTuple):
    """The sampled stacks of a thread."""

    # ns, ascending, shape (n + 1,): stack i was seen from ``bounds[i]`` to ``bounds[i + 1]``
    bounds: IntArray
    stack: IntArray  # positions of stacks, shape (n,); -1 if nothing is known
    looks: IntArray | None = None  # how many consecutive looks saw stack i; None: one each

    def ticks(self) -> Timed:
        """Return the same with a span for every look."""
        if self.looks is None:
            return self
        looks = np.maximum(self.looks, 1)
        home = np.repeat(np.arange(len(looks)), looks)
        position = np.arange(len(home)) - np.repeat(np.cumsum(looks) - looks, looks)
        begin = self.bounds[home] + position * np.diff(self.bounds)[home] // looks[home]
        return Timed(np.append(begin, self.bounds[-1:]), self.stack[home])


class Exact(NamedTuple):
    """What is known exactly about a sampled thread."""

    edges: Edges = Edges.none()  # annotations of the user
    statements: Rows | None = None  # the cell's statements
    others: Ranges | None = None  # slices that other collectors put on the same track
    lines: tuple[LineRuns, list[WatchedCode]] | None = None  # timed runs of the user's lines


class Level(NamedTuple):
    """All slices at one depth of the stack. A node is a call path, shared by the samples whose stacks begin
    with it."""

    begin_ns: IntArray
    end_ns: IntArray
    node: IntArray


@dataclass(frozen=True, slots=True)
class Tree:
    """Distinct call paths."""

    parent: IntArray  # of each node, -1 for a root; parents come before their children
    label: IntArray
    node_at: list[IntArray]  # for each depth: the node of each stack, -1 if the stack is shorter


class Labels(NamedTuple):
    """Names of slices, and the frame of each. The first `functions` of them are functions, the others
    lines."""

    names: list[str]
    frames: list[Frame]
    functions: int


def boundaries(
    bounds: IntArray, edges: IntArray, fixed: BoolArray | None = None
) -> tuple[IntArray, IntArray]:
    """Return where the time of each sample begins and ends. `bounds` are n + 1 ticks, `fixed` marks the exact
    ones.

    >>> begin, end = boundaries(np.array([0, 10, 20, 30]), np.array([14, 16]))
    >>> begin.tolist(), end.tolist()
    ([0, 16, 20], [14, 20, 30])
    """
    # A sample covers the time since the previous one: a tick that comes late because a C function did not
    # return is handled where that function was called. The stack changed somewhere between the two ticks. If
    # annotations began or ended in between, the earlier sample lasts until the first of these edges, and the
    # later one begins at the last. That is exact for a late tick: an edge is Python code, so the function
    # that did not return was called after it.
    if len(edges) == 0:
        return bounds[:-1], bounds[1:]
    behind = np.append(bounds[1:], np.iinfo(np.int64).max)
    first = np.searchsorted(edges, bounds, side="right")
    last = np.searchsorted(edges, behind, side="right") - 1
    inside = last >= first
    if fixed is not None:
        inside &= ~fixed
    begin = np.where(inside, edges[last], bounds)
    end = np.where(inside, edges[np.minimum(first, len(edges) - 1)], bounds)
    return begin[:-1], end[1:]


def breaks(ts: IntArray, stack: IntArray, stacks: Stacks, labels: Labels, edges: Edges) -> IntArray:
    """Return, for each sample, the depth of the outermost slice that must begin with it; `NEVER` if none
    must."""
    # Where an annotation begins or ends, everything that its function called has returned, and the function
    # has reached another line. Slices that continued would overlap the annotation's edge.
    depth = np.full(len(ts), NEVER, np.int64)
    at = np.searchsorted(ts, edges.ts, side="left")
    home = np.repeat(np.arange(len(stacks.lengths)), stacks.lengths)
    position = np.arange(len(home)) - stacks.offsets[home]
    for number, code in enumerate(edges.codes):
        opened = at[(edges.opener == number) & (at < len(ts))]
        opener = (getattr(code, "co_qualname", code.co_name), code.co_filename, code.co_firstlineno)
        is_it = np.array([frame[:3] == opener for frame in labels.frames], dtype=bool)[stacks.frames]
        own = np.full(len(stacks.lengths), NEVER, np.int64)
        np.minimum.at(own, home[is_it], (position + (stacks.frames < labels.functions))[is_it])
        here = np.minimum(own[stack[opened]], own[stack[np.maximum(opened - 1, 0)]])
        np.minimum.at(depth, opened, here)
    return depth


def label(
    stacks: Stacks,
    roots_are_lines: bool = True,
    cells: Mapping[str, str] = _NO_CELLS,
) -> tuple[Stacks, Labels, IntArray]:
    """Turn frames into labels: functions, and lines of the user's code. Returns their depths too."""
    # The outermost frame of a stack is labelled by its line, at least if it is the code of a module or a
    # cell. Every other frame is labelled by its function, and then by its line if it is in a cell or a module
    # of the user. A line of Inductor's module that calls a fused kernel has the kernel's name.
    # `depth` has, for each given frame, the depth of its innermost label. A label's frame has the executed
    # line, or the first line of the function.
    distinct = stacks.distinct
    functions: dict[Frame, int] = {}
    function_of = np.array(
        [functions.setdefault(frame._replace(line=frame.first_line), len(functions)) for frame in distinct],
        dtype=np.int64,
    )
    kernels = [fused_kernel(frame) for frame in distinct]
    own = np.array([frame.owner in (CELL, USER) for frame in distinct], dtype=bool)[stacks.frames]
    calls_kernel = np.array(list(map(bool, kernels)), dtype=bool)[stacks.frames]
    n = len(stacks.lengths)
    home = np.repeat(np.arange(n), stacks.lengths)
    is_root = np.zeros(len(home), bool)
    is_root[stacks.offsets[stacks.lengths > 0]] = True
    if not roots_are_lines:
        is_root &= np.array([frame.function.startswith("<") for frame in distinct], dtype=bool)[stacks.frames]
    copies = np.where((own & ~is_root) | calls_kernel, 2, 1)
    expanded = np.repeat(np.arange(len(home)), copies)
    second = np.concatenate([[False], expanded[1:] == expanded[:-1]])[: len(expanded)]
    as_line = second | (own & is_root)[expanded]
    frames = stacks.frames[expanded]
    labels = np.where(as_line, len(functions) + frames, function_of[frames])
    lengths = np.bincount(home[expanded], minlength=n).astype(np.int64)
    names = [f"{frame.function} ({short_file(frame, cells)})" for frame in functions]
    names += [kernel or line_name(frame, cells) for kernel, frame in zip(kernels, distinct, strict=True)]
    labelled = Stacks(labels, lengths, distinct)
    depth = np.cumsum(copies) - 1 - labelled.offsets[home]
    return labelled, Labels(names, [*functions, *distinct], len(functions)), as_ints(depth)


def grow(stacks: Stacks) -> Tree:
    """Join equal beginnings of stacks into a tree of call paths, depth by depth."""
    offsets, n = stacks.offsets, len(stacks.lengths)
    width = int(stacks.frames.max()) + 1 if len(stacks.frames) else 1
    parents, labels, node_at = [], [], []
    above, count = np.full(n, -1, np.int64), 0
    for depth in range(int(stacks.lengths.max()) if n else 0):
        alive = np.flatnonzero(stacks.lengths > depth)
        key = (above[alive] + 1) * width + stacks.frames[offsets[alive] + depth]
        keys, inverse = np.unique(key, return_inverse=True)
        node = np.full(n, -1, np.int64)
        node[alive] = count + inverse.ravel()
        parents.append(keys // width - 1)
        labels.append(keys % width)
        node_at.append(node)
        above, count = node, count + len(keys)
    empty = np.empty(0, np.int64)
    return Tree(np.concatenate([empty, *parents]), np.concatenate([empty, *labels]), node_at)


def levels(spans: SampleSpans, tree: Tree) -> Iterator[Level]:
    """Merge neighbouring samples with the same call path into slices, depth by depth, in order of time."""
    begin, end, stack, breaks = spans
    alive = np.arange(len(stack))
    for depth, node_at in enumerate(tree.node_at):
        node = node_at[stack[alive]]
        alive, node = alive[node >= 0], node[node >= 0]
        if len(alive) == 0:
            return
        first = breaks[alive] <= depth
        first[0] = True
        first[1:] |= (node[1:] != node[:-1]) | (alive[1:] != alive[:-1] + 1)
        starts = np.flatnonzero(first)
        lasts = np.append(starts[1:], len(alive)) - 1
        yield Level(begin[alive[starts]], end[alive[lasts]], node[starts])


def put(
    builder: TraceBuilder,
    track: int,
    samples: Timed,
    stacks: Stacks,
    exact: Exact | None = None,
    *,
    interval_ns: int = 1_000_000,
    roots_are_lines: bool = True,
) -> None:
    """Add the slices of a sampled thread to `builder`. `stacks` are already trimmed."""
    # `interval_ns`, the time between looks, limits how far a boundary is moved. `roots_are_lines` says that
    # the outermost function of a stack began before the recording, so its line matters; otherwise only
    # outermost frames of modules and cells are lines.
    exact = exact if exact is not None else Exact()
    if len(exact.edges.ts):
        samples = samples.ticks()
    if exact.statements is not None:  # during a statement, each complete stack leads back to the cell
        stack, stacks = bridged(samples.bounds, samples.stack, stacks, interval_ns)
        samples = Timed(samples.bounds, stack)
    fixed, anew = None, None
    if exact.lines is not None:
        bounds, stack, stacks, fixed, anew = overlay(samples.bounds, samples.stack, stacks, *exact.lines)
        samples = Timed(bounds, stack)
    stacks = Stacks(stacks.frames, np.append(stacks.lengths, 0), stacks.distinct)
    stack = np.where(samples.stack >= 0, samples.stack, len(stacks.lengths) - 1)
    cells = builder.metadata.get(OTHER_CELLS, {})
    labelled, labels, depth = label(stacks, roots_are_lines, cells)
    begin, end = boundaries(samples.bounds, exact.edges.ts, fixed)
    cuts = breaks(samples.bounds[1:], stack, labelled, labels, exact.edges)
    if anew is not None:
        begun = anew >= 0
        cuts[begun] = np.minimum(cuts[begun], depth[(stacks.offsets[stack] + anew)[begun]])
    spans = SampleSpans(begin, end, stack, cuts)
    if exact.statements is not None and len(exact.statements.ts):
        lines = _module_lines(labelled, labels)
        spans, labelled = hang(spans, labelled, lines, exact.statements, interval_ns)
    tree = grow(labelled)
    used = np.unique(tree.label)
    keep_source_files(builder, (labels.frames[i] for i in used[used >= labels.functions].tolist()), cells)
    if exact.others is not None:
        spans = beside_ranges(spans, tree.node_at, exact.others, interval_ns)
    keys = np.array(_stack_keys(builder, tree, labels), dtype=np.int64)
    for level in levels(spans, tree):
        checkpoint()
        builder.slices(
            ts=level.begin_ns,
            dur=level.end_ns - level.begin_ns,
            track=track,
            name=Coded(tree.label[level.node], labels.names),
            category="python",
            stack=keys[level.node],
        )


def _module_lines(stacks: Stacks, labels: Labels) -> IntArray:
    """Return the line of the cell's own code at the root of every stack; -1 if the root is something else."""
    is_it = np.array([f.owner == CELL and f.function.startswith("<") for f in labels.frames], dtype=bool)
    lines = np.array([frame.line for frame in labels.frames], dtype=np.int64)
    result = np.full(len(stacks.lengths), -1, np.int64)
    some = np.flatnonzero(stacks.lengths > 0)
    roots = stacks.frames[stacks.offsets[some]]
    result[some] = np.where(is_it[roots], lines[roots], -1)
    return result


def _stack_keys(builder: TraceBuilder, tree: Tree, labels: Labels) -> list[int]:
    """Return the builder's key for each node's stack. There, a function and its line are a single frame."""
    keys: list[int] = []
    without_last: list[int] = []
    for parent, number in zip(tree.parent.tolist(), tree.label.tolist(), strict=True):
        frame = labels.frames[number]
        of_parent = without_last if number >= labels.functions else keys
        above = of_parent[parent] if parent >= 0 else -1
        without_last.append(above)
        keys.append(builder.stack([(frame.function, frame.file, frame.line)], above=above))
    return keys
