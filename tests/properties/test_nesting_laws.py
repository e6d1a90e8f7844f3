"""What holds of nesting, pairing and intervals for any input, checked against plain definitions."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from notebook_prof.analysis.critical_path.resources import Segments, segments
from notebook_prof.trace import complement, contains, length, nest, overlap, subtract, union
from notebook_prof.trace.nesting import crossing_frames, pair

spans = st.lists(
    st.tuples(st.integers(0, 2), st.integers(0, 40), st.integers(0, 25)), min_size=0, max_size=40
)


OTHER, FRAME, ANNOTATION = range(3)
kinds = st.lists(st.integers(0, 2), min_size=40, max_size=40)


def columns(rows):
    table = np.array(rows, dtype=np.int64).reshape(-1, 3)
    return table[:, 0], table[:, 1], table[:, 2]


def slow_nest(track, ts, dur, kind=None):
    """The definition, instant by instant."""
    order = sorted(range(len(ts)), key=lambda i: (track[i], ts[i], -dur[i], i))
    parent, depth = {}, {}
    for at, i in enumerate(order):
        open_ = [j for j in order[:at] if track[j] == track[i] and ts[j] + dur[j] > ts[i]]
        while kind and open_ and kind[i] == ANNOTATION and kind[open_[-1]] == FRAME:
            if ts[open_[-1]] + dur[open_[-1]] >= ts[i] + dur[i]:
                break
            open_.pop()
        parent[i] = open_[-1] if open_ else -1
        depth[i] = depth[open_[-1]] + 1 if open_ else 0
    own = dict.fromkeys(order, 0)
    for k in set(track):
        for t in range(70):
            open_ = [i for i in order if track[i] == k and ts[i] <= t < ts[i] + dur[i]]
            if open_:
                own[open_[-1]] += 1
    n = range(len(ts))
    return [depth[i] for i in n], [parent[i] for i in n], [own[i] for i in n]


@given(spans)
def test_nesting_is_its_definition(rows):
    track, ts, dur = columns(rows)
    fast = nest(track, ts, dur)
    assert [part.tolist() for part in fast] == list(slow_nest(track.tolist(), ts.tolist(), dur.tolist()))


@given(spans, kinds)
def test_frames_do_not_enclose_annotations_that_outlive_them(rows, kind):
    track, ts, dur = columns(rows)
    kind = np.array(kind[: len(ts)], np.int64)
    order = np.lexsort((-dur, ts))
    track, ts, dur, kind = track[order], ts[order], dur[order], kind[order]
    frame, annotation = kind == FRAME, kind == ANNOTATION
    nested = nest(track, ts, dur, frame, annotation)
    assert [part.tolist() for part in nested] == list(
        slow_nest(track.tolist(), ts.tolist(), dur.tolist(), kind.tolist())
    )
    assert (nested.self_ns == nest(track, ts, dur).self_ns).all()
    slices, until = crossing_frames(track, ts, dur, (nested.depth, nested.parent), annotation)
    assert frame[slices].all()
    drawn = dur.copy()
    drawn[slices] = until - ts[slices]
    for k in set(zip(track.tolist(), nested.depth.tolist(), strict=True)):
        on = (track == k[0]) & (nested.depth == k[1])
        starts, ends = union(ts[on], (ts + drawn)[on])
        assert (ends - starts).sum() == drawn[on].sum()


def owners(cut: Segments):
    """Who owns each instant; nobody may be the owner of two segments in a row."""
    assert (np.diff(cut.at) > 0).all()
    assert (np.diff(cut.owner) != 0).all()
    return cut.owner[np.searchsorted(cut.at, np.arange(70), side="right") - 1].tolist()


@given(spans, st.lists(st.booleans(), min_size=40, max_size=40))
def test_segments_belong_to_the_latest_started_slice_that_is_open(rows, chosen):
    track, ts, dur = columns(rows)
    order = np.lexsort((-dur, ts))
    track, ts, dur = track[order], ts[order], dur[order]
    end = ts + dur
    lasting = (track == 0) & (dur > 0)
    for some in (lasting, lasting & np.array(chosen[: len(ts)], bool)):  # also where parents are missing
        own = np.flatnonzero(some)
        open_ = [[i for i in own if ts[i] <= t < end[i]] for t in range(70)]
        expected = [there[-1] if there else -1 for there in open_]
        assert owners(segments(own, ts[own], end[own])) == expected


events = st.lists(st.tuples(st.integers(0, 1), st.integers(0, 20), st.booleans()), max_size=40)


@given(events)
def test_pairing_is_a_stack(rows):
    track = np.array([r[0] for r in rows], np.int64)
    ts = np.array([r[1] for r in rows], np.int64)
    opens = np.array([r[2] for r in rows], bool)
    stacks, begin, end, unopened = {0: [], 1: []}, [], [], []
    for i in sorted(range(len(rows)), key=lambda i: (track[i], ts[i], i)):
        stack = stacks[int(track[i])]
        if opens[i]:
            stack.append(i)
        elif stack:
            begin.append(stack.pop())
            end.append(i)
        else:
            unopened.append(i)
    pairs = pair(track, ts, opens)
    assert set(zip(pairs.begin.tolist(), pairs.end.tolist(), strict=True)) == set(
        zip(begin, end, strict=True)
    )
    assert sorted(pairs.unclosed.tolist()) == sorted(stacks[0] + stacks[1])
    assert sorted(pairs.unopened.tolist()) == sorted(unopened)


def instants(intervals):
    return {t for a, b in zip(*intervals, strict=True) for t in range(int(a), int(b))}


@given(spans, spans)
def test_interval_algebra_is_set_algebra(left, right):
    _, a0, da = columns(left)
    _, b0, db = columns(right)
    a, b = union(a0, a0 + da), union(b0, b0 + db)
    assert instants(a) == {t for s, d in zip(a0, da, strict=True) for t in range(int(s), int(s + d))}
    assert instants(overlap(a, b)) == instants(a) & instants(b)
    assert instants(subtract(a, b)) == instants(a) - instants(b)
    assert instants(complement(a, (-5, 80))) == set(range(-5, 80)) - instants(a)
    assert length(a) + length(complement(a, (-5, 80))) == 85
    assert contains(a, np.arange(70)).tolist() == [t in instants(a) for t in range(70)]
