"""Where the thread of the steps spends its time: operators against the Python that they call."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from notebook_prof import TraceBuilder, analysis
from tests.recording import add_slices


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(1, 30), st.booleans()), min_size=1, max_size=12))
def test_the_innermost_of_the_two_owns_an_instant(rows: list[tuple[int, int, bool]]) -> None:
    """Against every instant of drawn slices, one inside another or apart."""
    kept: list[tuple[int, int, bool]] = []
    for ts, dur, python in sorted(rows, key=lambda row: (row[0], -row[1])):
        above = [row for row in kept if row[0] <= ts < row[0] + row[1]]
        if all(ts + dur <= row[0] + row[1] for row in above) and (ts, dur) not in [row[:2] for row in kept]:
            kept.append((ts, dur, python))
    builder = TraceBuilder()
    ts, dur, is_python = (np.array(column) for column in zip(*kept, strict=True))
    kinds = np.where(is_python, "python", "operator").tolist()
    add_slices(builder, builder.track("main"), ["x"] * len(ts), ts * 10**6, dur * 10**6, kinds)
    table = analysis.thread_time(builder.seal()).set_index("state")["ns"] // 10**6
    expected = {True: 0, False: 0}
    for instant in range(100):
        open_ = [row for row in kept if row[0] <= instant < row[0] + row[1]]
        if open_:
            expected[open_[-1][2]] += 1
    assert table["python"] == expected[True]
    assert table["operators"] + table["small operators"] == expected[False]
