"""Hand-overs between threads against the definition, written out for each rest."""

from itertools import chain, groupby, pairwise
from pathlib import Path

import numpy as np
import pytest

from notebook_prof import Trace, TraceBuilder, read_trace
from notebook_prof.analysis import critical_path
from notebook_prof.analysis.critical_path import dependences
from notebook_prof.analysis.critical_path.resources import Resources
from notebook_prof.testing import draw

NEVER = np.iinfo(np.int64).max // 4


def many_threads(seed: int, threads: int, bursts: int) -> Trace:
    """Threads that are busy now and then, some of a second process; often at the same instants."""
    rng, builder = np.random.default_rng(seed), TraceBuilder()
    for number in range(threads):
        track = builder.track(f"t{number}", pid=1 + (number % 5 == 4), tid=number)
        cuts = np.sort(rng.choice(12 * bursts, 2 * int(rng.integers(1, bursts + 1)), replace=False))
        kind = rng.choice(["operator", "annotation"], len(cuts) // 2, p=[0.8, 0.2])
        builder.slices(ts=cuts[0::2], dur=cuts[1::2] - cuts[0::2], name="op", category=kind, track=track)
    return builder.seal()


def spans(trace: Trace, track: int) -> tuple[list[tuple[int, int]], list[tuple[int, int, bool]]]:
    """When a thread is busy; and when it rests, with whether nobody owns it at the end."""
    own = trace.slices[trace.slices["track"] == track]
    every = list(zip(own["ts"], own["ts"] + own["dur"], own["category"] == "operator", strict=True))
    pieces = [(-NEVER, every[0][0], False, True)]
    for (begin, end, busy), (later, *_) in pairwise([*every, (NEVER, 0, False)]):
        pieces += [(begin, end, busy, False)]
        pieces += [(end, later, False, True)] if later > end else []
    busy_spans, rests = [], []
    for busy, group in groupby(pieces, key=lambda piece: piece[2]):
        run = list(group)
        if busy:
            busy_spans.append((int(run[0][0]), int(run[-1][1])))
        elif run[-1][1] < NEVER:
            rests.append((int(run[0][0]), int(run[-1][1]), run[-1][3]))
    return busy_spans, rests


def expected(trace: Trace, main: int) -> set[tuple[int, int, int, int, int, int]]:
    """Thread, begin, done, end, cause and margin of each wait."""
    pid = dict(zip(trace.tracks["track"], trace.tracks["pid"], strict=True))
    busy = {track: spans(trace, track)[0] for track in pid}
    out = set()
    for track in pid:
        others = [other for other in pid if other != track and pid[other] == pid[track]]
        for begin, end, nobody in spans(trace, track)[1]:
            done = []
            for other in others:
                last = [span for span in busy[other] if span[1] <= end][-1:]
                if last and last[0][0] >= begin and last[0][1] > begin:
                    opened = next(a for a, _ in busy[other] if a >= begin)
                    if 2 * (last[0][1] - opened) >= end - max(begin, 2 * opened - end):
                        done.append((last[0][1], False, 0, 0, -other))
            if not done and nobody and track != main:
                for other in others:
                    last = [span for span in busy[other] if span[0] < end][-1:]
                    if last and min(last[0][1], end) > begin:
                        goes_on = last[0][1] >= end
                        rank = (other == main, *last[0][::-1]) if goes_on else (False, 0, 0)
                        done.append((min(last[0][1], end), *rank, -other))
            if done:
                # of several that are busy, the main thread, or else the one that goes on longest
                best = max(done)
                second = max((one[0] for one in done if one is not best), default=-NEVER)
                out.add((track, begin, best[0], end, -best[-1], min(best[0] - second, best[0] - begin)))
    return out


@pytest.mark.parametrize("bursts", [1, 4, 200])
@pytest.mark.parametrize("threads", [2, 3, 12])
def test_they_are_those_of_the_definition(threads: int, bursts: int) -> None:
    """Also where more bursts lie in a rest than are looked at one after another."""
    for seed in range(8 if bursts < 10 else 2):
        trace = many_threads(seed, threads, bursts)
        parts = dependences.wakeups(Resources(trace), 0, np.empty(0, np.int64))
        columns = ("thread", "begin", "done", "end", "track", "margin")
        rows = (zip(*(getattr(one, name).tolist() for name in columns), strict=True) for one in parts)
        waits = set(chain.from_iterable(rows))
        assert waits == expected(trace, 0)


def test_communication_that_began_before_the_rest_is_waited_for() -> None:
    """A reduction runs beside the backward pass; then the thread rests until it is done."""
    trace = draw(
        """
        main: [backward        ][wait          ][step]
        gloo:      [all_reduce           ]
        """,
        categories={"wait": "annotation", "all_reduce": "collective"},
    )
    pieces = critical_path(trace)
    assert pieces[["name", "class", "dur_ns"]].values.tolist() == [
        ["backward", "host-operator", 5],
        ["all_reduce", "communication", 23],
        ["wait", "wait-wakeup", 6],
        ["step", "host-operator", 6],
    ]
    beside = draw(
        "main: [backward ][wait  ][step]\ngloo:    [other       ]", categories={"wait": "annotation"}
    )
    assert "other" not in set(critical_path(beside)["name"].dropna())


def test_ranks_on_the_cpu_wait_for_communication(shared_traces: Path) -> None:
    """The path of a rank whose steps are communication for 64.5 % of the time, by their phases."""
    trace = read_trace(shared_traces / "torch213_cpu" / "ddp_2rank" / "ddp_gloo_rank0.pt.trace.json.gz")
    share = critical_path(trace, by="class").set_index("class")["share"]
    assert share["communication"] == pytest.approx(0.645, abs=0.01)
