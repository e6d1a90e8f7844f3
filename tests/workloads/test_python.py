"""Cells of Python, NumPy, pandas and scikit-learn: what their Profile says is what is true of them.

Each truth is in docs/truth.md. Shares are compared with `laws.margin`; other margins give their reason.
"""

import re

import pytest

from .conftest import Play, books, compared, needs, timed
from .laws import check_statements, margin
from .runner import Run


def printed_number(run: Run, after: str = "") -> float:
    """The number that the profiled cell printed, behind this text."""
    match = re.search(re.escape(after) + r"\s*(\d+(?:\.\d+)?)", run.printed)
    assert match, run.printed
    return float(match[1])


def account_cpu_s(run: Run) -> float:
    return float(run.account["cpu_ns"].sum()) / 1e9


def check_cpu(run: Run) -> None:
    """The account's CPU time is the operating system's."""
    # A tenth, and 0.15 s on top: the books are read before and after the cell, and count in ticks of 10 ms a
    # process. So the start and the stop of the recording and the answers of the kernel are in them too (0.47
    # s on a busy machine): they take no more than the seconds that the magic lasts longer than the cell.
    # Processes of the profiler that ended meanwhile count as children; by so much the truth is open.
    most = run.used["process_s"] + run.used["children_s"]
    in_cell = max(0.0, run.used["process_s"] - (run.wall_s - run.cell_s))
    least = in_cell + run.used["children_s"] - run.used["helpers_s"]
    assert 0.9 * least - 0.15 <= account_cpu_s(run) <= 1.1 * most + 0.15, (account_cpu_s(run), run.used)


@compared
def test_sleep_is_waiting_and_work_is_work(play: Play) -> None:
    run = play("sleep")
    check_statements(run)
    check_cpu(run)
    # load() sleeps for 1.0 s and the last line for 0.5 s: they cannot take less, and wake up late under load
    for number, asleep_s in ((9, 1.0), (11, 0.5)):
        assert asleep_s <= run.part_s(number) <= asleep_s + 0.2
        assert run.line_share(number) * run.cell_s >= 0.95 * asleep_s
    assert run.source_share("time.sleep(1.0)") * run.cell_s >= 0.9
    rows = run.account.set_index("line")
    assert rows.loc[9, "wait_ns"] >= 0.9e9
    assert rows.loc[9, "cpu_ns"] <= 0.3e9, "asleep; what else runs meanwhile is the kernel's own threads"


@compared
def test_a_pandas_cell_after_torch_was_imported(play: Play) -> None:
    run = play("torchimp_pandas")
    check_statements(run)
    for number in (2, 3):
        assert run.off(number, run.line_share(number)) <= margin(run)
    assert run.line_share(2) + run.line_share(3) >= 0.9, "these two lines are the cell"
    assert "line 2" in run.verdict or "cell:2" in run.verdict


@pytest.mark.clock("py-spy reads stacks while they change, more so where it waits for a core")
def test_c_code_is_not_blamed_on_the_next_call(play: Play) -> None:
    run = play("matmul_next_call")
    # the loop prints its own time; `move` is one call of nothing among matrix products of 10 ms
    share = printed_number(run, "matmul loop") / run.cell_s
    assert abs(run.line_share(9) - share) <= margin(run)
    assert run.source_share("r = X.T @ g") >= 0.8 * share
    assert run.source_share("move(r)") <= 0.2, "a call of nothing"
    assert "def move" not in run.verdict.splitlines()[0]
    assert "X.T @ g" in run.verdict


@timed
@pytest.mark.xfail(reason="py-spy reads stacks while they change: 2 to 18 points off on half a second here")
def test_a_call_of_nothing_gets_next_to_nothing(play: Play) -> None:
    assert play("matmul_next_call").source_share("def move(x)") <= 0.1


def test_the_peak_of_memory_is_the_peak(play: Play) -> None:
    run = play("rss_peak")
    said = float(run.memory_peak.query("device == -1")["peak_bytes"].max())
    assert abs(said / run.high_water_bytes - 1) <= 0.05, (said / 2**20, run.high_water_bytes / 2**20)


@compared
def test_a_plain_loop_stays_as_fast(play: Play) -> None:
    run = play("dataset_loop")
    assert "1,000,000" not in run.verdict
    assert run.part_s(4, 5) >= 0.6 * run.cell_s, "the loop is nearly all of the cell; the rest is its import"
    # it once took 29 times as long. Within 3 times, since 60 ms on a busy machine are no measurement
    assert printed_number(run) <= 3 * max(float(run.bare_printed), 0.03)


def test_steps_that_are_asked_for_are_recorded_in_any_loop(play: Play) -> None:
    run = play("plain_steps_window")
    assert run.steps["step"].tolist() == list(range(3, 14))
    assert (run.steps["dur"] >= 10e6).all(), "each sleeps for 10 ms"
    rows = run.account.groupby("kind")["steps"].sum()
    assert (rows["steps"], rows["outside-window"]) == (11, 29)


@timed
def test_steps_that_are_asked_for_are_recorded_whole(play: Play) -> None:
    run = play("plain_steps_window")
    assert (run.steps["host_busy_ns"] >= 0.8 * run.steps["dur"]).all(), "slices are cut at the steps' borders"
    # of 40 equal steps 29 were not asked for; equal to a quarter, since a busy machine stretches some
    share = run.kind_s("outside-window") / (run.kind_s("outside-window") + run.kind_s("steps"))
    assert abs(share - 29 / 40) <= 0.18


def test_work_of_a_child_is_reported(play: Play) -> None:
    run = play("subproc")
    assert "_try_wait" not in run.verdict
    assert re.search(r"child|process", run.verdict), run.verdict
    assert "cell:2" in run.verdict or "line 2" in run.verdict


@books
def test_work_of_a_child_is_in_the_account(play: Play) -> None:
    run = play("subproc")
    check_cpu(run)
    assert account_cpu_s(run) >= 0.7 * (run.used["children_s"] - run.used["helpers_s"])
    assert run.line_share(2) >= 0.9


def test_waiting_for_a_server_is_the_line_that_asks(play: Play) -> None:
    run = play("http")
    # ten answers of 0.15 s each, one after another
    assert run.part_s(3, 5) >= 1.5
    assert "readinto" not in run.verdict
    assert "urlopen" in run.verdict or re.search(r"(cell:|line )4", run.verdict), run.verdict
    # where cores are taken, the end of a wait is spent in the queue for one
    assert run.account["wait_ns"].sum() >= 1.0e9


@books
def test_waiting_for_a_server_takes_no_core(play: Play) -> None:
    run = play("http")
    assert run.source_share("urllib.request.urlopen") * run.cell_s >= 1.4
    check_cpu(run)


def test_all_threads_are_seen(play: Play) -> None:
    run = play("threads")
    rows = run.lines[run.lines["text"].str.contains("s += i * i", regex=False)]
    assert len(rows)
    assert rows["threads"].max() == 2
    assert "Condition" not in run.verdict
    assert re.search(r"(cell:|line )11", run.verdict), "the wait belongs to the line that waits"


@books
def test_threads_that_take_turns(play: Play) -> None:
    run = play("threads")
    # two threads that take turns at the interpreter: their lines are open until both are done
    assert run.source_share("ts = [threading") <= 0.1
    assert run.part_s(11) >= 1.2, "the last join waits for io(), which sleeps for 1.5 s"
    assert run.source_share("time.sleep(1.5)") * run.cell_s >= 1.4
    check_cpu(run)


def test_a_pool_of_threads_gets_its_cores(play: Play) -> None:
    run = play("cf_thread")
    rows = run.lines[run.lines["text"].str.contains("hashlib.sha256(data)", regex=False)]
    assert rows["threads"].max() >= 2
    assert "Condition" not in run.verdict.splitlines()[0]
    assert "Condition.wait" not in run.verdict  # a thread may lose its core anywhere else, as in `__init__`


@books
def test_cores_of_a_pool_are_in_the_account(play: Play) -> None:
    run = play("cf_thread")
    check_cpu(run)
    assert run.part_s(2, 3) >= 0.9 * run.cell_s


@needs("sklearn")
def test_the_line_that_fits_a_forest(play: Play) -> None:
    run = play("rf")
    assert "_retrieve" not in run.verdict
    assert re.search(r"(cell:|line )2", run.verdict), run.verdict


@compared
@needs("sklearn")
def test_a_forest_is_fitted_on_several_cores(play: Play) -> None:
    run = play("rf")
    check_cpu(run)
    check_statements(run)
    assert run.off(2, run.line_share(2)) <= margin(run)
