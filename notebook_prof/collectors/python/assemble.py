"""Turns samples of stacks into slices, without a loop over samples."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, NamedTuple

import numpy as np

from ...background import checkpoint
from ...trace.arrays import BoolArray, IntArray, consecutive
from ...trace.builder import TraceBuilder
from ...trace.intervals import as_ints
from ...trace.strings import Coded
from ..journal import AnnotationEdges
from ..line_runs import LineRuns, WatchedCode
from ..statements import Statements
from .frames import CELL, USER, PackedStacks, PythonFrame
from .names import cell_lines, fused_kernel, keep_source_files, line_name, short_file
from .overlay import hang, overlay
from .snapping import NEVER, ExactRanges, SampleSpans, beside_ranges, bridged

OTHER_CELLS: Final = "other_cells"
"""Metadata key: the displayed names, such as ``In[3]``, of the cells other than the profiled one, by file."""
_TOP_LEVEL: Final = ("<module>", "<cell line")
"""Names of code of modules and cells. A lambda is a function, which an event loop may call by itself."""
_NO_CELLS: Final[Mapping[str, str]] = MappingProxyType({})


class TimedStacks(NamedTuple):
    """The sampled stacks of a thread."""

    # ns, ascending, shape (n + 1,): stack i was seen from ``bounds[i]`` to ``bounds[i + 1]``
    bounds: IntArray
    stack: IntArray  # numbers of stacks, shape (n,); -1 if unknown
    looks: IntArray | None = None  # how many consecutive looks saw stack i; None: one each

    def ticks(self) -> TimedStacks:
        """Return the same stacks with one span per look."""
        if self.looks is None:
            return self
        looks = np.maximum(self.looks, 1)
        home = np.repeat(np.arange(len(looks)), looks)
        position = consecutive(np.zeros_like(looks), looks)
        begin = self.bounds[home] + position * np.diff(self.bounds)[home] // looks[home]
        return TimedStacks(np.append(begin, self.bounds[-1:]), self.stack[home])


class Exact(NamedTuple):
    """What is known exactly about a sampled thread."""

    edges: AnnotationEdges = AnnotationEdges.none()  # the user's annotations
    statements: Statements | None = None  # the cell's statements
    others: ExactRanges | None = None  # slices that other collectors put on the same track
    lines: tuple[LineRuns, list[WatchedCode]] | None = None  # timed runs of the user's lines


@dataclass(frozen=True, slots=True)
class PathTree:
    """Distinct call paths."""

    parent: IntArray  # of each node, -1 for a root; parents come before their children
    label: IntArray
    node_at: list[IntArray]  # by depth: the node of each stack, -1 if the stack is shorter


class Labels(NamedTuple):
    """Names of slices, and their frames. The first `functions` entries are functions, the others lines."""

    names: list[str]
    frames: list[PythonFrame]
    functions: int


def boundaries(
    bounds: IntArray, edges: IntArray, fixed: BoolArray | None = None
) -> tuple[IntArray, IntArray]:
    """Return the begin and end of each sample's time."""
    # A sample covers the time since the previous one: if a tick is late because a C function did not return,
    # it is handled where that function was called. The stack changed somewhere between the two ticks. If
    # annotations began or ended in between, the earlier sample lasts until the first of these edges, and the
    # later one begins at the last. For a late tick this is exact: an edge is Python code, so the function
    # that did not return was called after it.
    # `bounds` are n + 1 ticks, of which `fixed` marks the exact ones.
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


def breaks(
    ts: IntArray, stack: IntArray, stacks: PackedStacks, labels: Labels, edges: AnnotationEdges
) -> IntArray:
    """Return the depth of the outermost slice that must begin with each sample, or `NEVER`."""
    # Where an annotation begins or ends, everything that its function called has returned, and the function
    # has reached another line. If slices continued there, they would overlap the annotation's edge.
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
    stacks: PackedStacks,
    roots_are_lines: bool = True,
    cells: Mapping[str, str] = _NO_CELLS,
    cell: Sequence[str] = (),
) -> tuple[PackedStacks, Labels, IntArray]:
    """Turn frames into labels: functions, and lines of the user's code. Returns their depths too."""
    # The outermost frame of a stack is labelled by its line, at least if it is top-level code of a module or
    # a cell. Every other frame is labelled by its function, and also by its line if it is in a cell or a user
    # module. A line of Inductor's module that calls a fused kernel gets the kernel's name. `depth` has the
    # depth of each frame's innermost label. The frame of a label contains the executed line, or the first
    # line of the function.
    distinct = stacks.distinct
    functions: dict[PythonFrame, int] = {}
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
        is_root &= np.array([f.function.startswith(_TOP_LEVEL) for f in distinct], dtype=bool)[stacks.frames]
    copies = np.where((own & ~is_root) | calls_kernel, 2, 1)
    expanded = np.repeat(np.arange(len(home)), copies)
    second = np.concatenate([[False], expanded[1:] == expanded[:-1]])[: len(expanded)]
    as_line = second | (own & is_root)[expanded]
    frames = stacks.frames[expanded]
    labels = np.where(as_line, len(functions) + frames, function_of[frames])
    lengths = np.bincount(home[expanded], minlength=n).astype(np.int64)
    names = [f"{frame.function} ({short_file(frame, cells)})" for frame in functions]
    names += [
        kernel or line_name(frame, cells, cell) for kernel, frame in zip(kernels, distinct, strict=True)
    ]
    labelled = PackedStacks(labels, lengths, distinct)
    depth = np.cumsum(copies) - 1 - labelled.offsets[home]
    return labelled, Labels(names, [*functions, *distinct], len(functions)), as_ints(depth)


def grow(stacks: PackedStacks) -> PathTree:
    """Merge equal beginnings of stacks into a tree of call paths, depth by depth."""
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
    return PathTree(np.concatenate([empty, *parents]), np.concatenate([empty, *labels]), node_at)


def levels(spans: SampleSpans, tree: PathTree) -> Iterator[tuple[IntArray, IntArray, IntArray]]:
    """Merge neighbouring samples with the same call path into slices, depth by depth, in order of time."""
    # yields, for each depth, the begins and ends of all slices and their nodes (call paths)
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
        yield begin[alive[starts]], end[alive[lasts]], node[starts]


def put(
    builder: TraceBuilder,
    track: int,
    samples: TimedStacks,
    stacks: PackedStacks,
    exact: Exact | None = None,
    *,
    interval_ns: int = 1_000_000,
    roots_are_lines: bool = True,
) -> None:
    """Add the slices of a sampled thread to `builder`. `stacks` are already trimmed."""
    # `interval_ns`, the time between looks, limits how far a boundary is moved. If `roots_are_lines` is set,
    # the outermost function of a stack began before the recording, so its line matters. Otherwise only
    # outermost frames of modules and cells become lines.
    exact = exact if exact is not None else Exact()
    if len(exact.edges.ts) or exact.others is not None:
        samples = samples.ticks()
    if exact.statements is not None:  # during a statement, every complete stack leads back to the cell
        stack, stacks = bridged(samples.bounds, samples.stack, stacks, interval_ns)
        samples = TimedStacks(samples.bounds, stack)
    fixed, anew = None, None
    if exact.lines is not None:
        bounds, stack, stacks, fixed, anew = overlay(samples.bounds, samples.stack, stacks, *exact.lines)
        samples = TimedStacks(bounds, stack)
    stacks = PackedStacks(stacks.frames, np.append(stacks.lengths, 0), stacks.distinct)
    stack = np.where(samples.stack >= 0, samples.stack, len(stacks.lengths) - 1)
    cells = builder.metadata.get(OTHER_CELLS, {})
    # below a statement, a root other than the cell's own code is a function like any other
    are_lines = roots_are_lines and exact.statements is None
    labelled, labels, depth = label(stacks, are_lines, cells, cell_lines(builder))
    begin, end = boundaries(samples.bounds, exact.edges.ts, fixed)
    cuts = breaks(samples.bounds[1:], stack, labelled, labels, exact.edges)
    if anew is not None:
        begun = anew >= 0
        cuts[begun] = np.minimum(cuts[begun], depth[(stacks.offsets[stack] + anew)[begun]])
    spans = SampleSpans(begin, end, stack, cuts)
    if exact.statements is not None and len(exact.statements.ts):
        spans, labelled = hang(spans, labelled, _roots(labelled, labels), exact.statements, interval_ns)
    tree = grow(labelled)
    used = np.unique(tree.label)
    keep_source_files(builder, (labels.frames[i] for i in used[used >= labels.functions].tolist()), cells)
    if exact.others is not None:
        spans = beside_ranges(spans, tree.node_at, exact.others, interval_ns)
    keys = np.array(_stack_keys(builder, tree, labels), dtype=np.int64)
    for ts, until, node in levels(spans, tree):
        checkpoint()
        builder.slices(
            ts=ts,
            dur=until - ts,
            track=track,
            name=Coded(tree.label[node], labels.names),
            category="python",
            stack=keys[node],
        )


def _roots(stacks: PackedStacks, labels: Labels) -> tuple[IntArray, BoolArray]:
    """Return the cell's line at each stack's root, or -1, and whether the root is another user function."""
    is_it = np.array([f.owner == CELL and f.function.startswith(_TOP_LEVEL) for f in labels.frames], bool)
    lines = np.array([frame.line for frame in labels.frames], dtype=np.int64)
    result = np.full(len(stacks.lengths), -1, np.int64)
    some = np.flatnonzero(stacks.lengths > 0)
    roots = stacks.frames[stacks.offsets[some]]
    result[some] = np.where(is_it[roots], lines[roots], -1)
    owned = np.array([f.owner in (CELL, USER) for f in labels.frames], dtype=bool)
    of_user = np.zeros(len(stacks.lengths), bool)
    of_user[some] = owned[roots] & ~is_it[roots]
    return result, of_user


def _stack_keys(builder: TraceBuilder, tree: PathTree, labels: Labels) -> list[int]:
    """Return the builder's key of each node's stack, in which a function and its line are a single frame."""
    keys: list[int] = []
    without_last: list[int] = []
    for parent, number in zip(tree.parent.tolist(), tree.label.tolist(), strict=True):
        frame = labels.frames[number]
        of_parent = without_last if number >= labels.functions else keys
        above = of_parent[parent] if parent >= 0 else -1
        without_last.append(above)
        keys.append(builder.stack([(frame.function, frame.file, frame.line)], above=above))
    return keys
