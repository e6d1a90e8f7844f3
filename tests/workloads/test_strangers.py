"""Cells that were written after the profiler, by somebody who did not look at it."""

import re

from .conftest import Play, books, compared, timed
from .laws import check_statements, margin
from .test_python import check_cpu, printed_number
from .test_torch import printed_numbers


@timed
def test_one_trivial_line_has_nothing_to_report(play: Play) -> None:
    run = play("one")
    assert run.verdict.startswith("Nothing to report")
    assert len(run.verdict.splitlines()) == 1
    assert run.advised == []


def test_a_cell_that_raises_keeps_what_was_recorded(play: Play) -> None:
    run = play("raises")
    assert run.error.splitlines()[0] == "KeyError"
    assert "notebook_prof" not in run.error
    assert "b'%%profile" not in run.error, "the magic is no statement"
    assert run.part_s(5) >= 0.2, "it sleeps for 0.2 s"
    assert run.part_s(7) == 0.0, "this line was not reached"


@timed
def test_times_of_a_cell_that_raises(play: Play) -> None:
    run = play("raises")
    assert run.part_s(5) <= 1, "it sleeps for 0.2 s"
    assert run.part_s(2, 6) >= 0.9 * (run.cell_s - run.kind_s("profiler"))


@books
def test_waiting_tasks_wait(play: Play) -> None:
    run = play("gather")
    digest = printed_number(run, "digest")
    # twenty tasks sleep for 0.3 s at the same time
    assert run.part_s(15) >= 0.3 + 0.9 * digest
    assert abs(run.source_share("hashlib.sha256") * run.cell_s - digest) <= 0.03 + 0.15 * digest
    last = run.line(16)
    assert last is None or last["total_ns"] <= 5e6, "len() takes nothing; IPython's display is not its time"
    check_cpu(run)


@timed
def test_top_level_await(play: Play) -> None:
    run = play("topawait")
    whole = printed_number(run)
    assert abs(run.part_s(2, 10) - whole) <= 0.02 + 0.02 * whole
    assert 0.4 <= run.part_s(3) <= 0.65, "asyncio.sleep(0.4); late by what the machine is busy"
    assert run.part_s(10) >= 0.3, "thirty sleeps of 10 ms"


def test_apply_by_row_is_found(play: Play) -> None:
    run = play("orders")
    assert re.search(r"(cell:|[Ll]ine )5", run.verdict.splitlines()[0])
    assert any("row" in words for words, _ in run.advised), (run.advised, run.codes, run.verdict)


@compared
def test_times_of_apply_by_row(play: Play) -> None:
    run = play("orders")
    check_statements(run)
    apply = printed_number(run, "apply")
    assert abs(run.line_share(5) * run.cell_s - apply) <= 0.02 + 0.03 * apply, "measured in the same run"
    assert abs(run.part_s(3) - printed_number(run, "merge")) <= 0.05


@timed
def test_files_and_text(play: Play) -> None:
    run = play("gzipio")
    for word, (first, last) in {"write": (3, 5), "read": (7, 8), "text": (10, 14)}.items():
        true = printed_number(run, word)
        assert abs(run.part_s(first, last) - true) <= 0.02 + 0.03 * true, (word, true)
    assert run.source_share("json.dumps(r)") * run.cell_s >= 0.6 * printed_number(run, "write")


def test_processes_of_the_profiler_are_not_the_cells(play: Play) -> None:
    assert "child process" not in play("closures").verdict, "the cell starts none"


@compared
def test_a_cache_in_a_closure(play: Play) -> None:
    run = play("closures")
    check_statements(run)
    # two closures with forty keys each sleep 5 ms for a new one
    asleep = run.source_share("time.sleep(0.005)") * run.cell_s
    assert 0.9 * 80 * 0.005 <= asleep <= 80 * 0.005 * 1.5 + 0.1
    assert run.line_share(13) * run.cell_s >= 0.9 * 40 * 0.005


@timed  # children that other jobs keep from the cores are no reason to wait
def test_a_pool_of_processes_computes(play: Play) -> None:
    run = play("pool")
    assert re.search(r"(cell:|[Ll]ine )[23]", run.verdict)
    assert re.search(r"process|child|worker", run.verdict), run.verdict


@books
def test_a_pool_of_processes_is_in_the_account(play: Play) -> None:
    run = play("pool")
    check_cpu(run)
    assert run.used["children_s"] > 0.1, "the system's books: the check of account.cpu_ns is not an empty one"
    assert run.part_s(2, 3) >= 0.9 * (run.cell_s - run.kind_s("profiler"))


@timed
def test_two_networks_that_play_against_each_other(play: Play) -> None:
    run = play("gan")
    discriminator, generator = printed_number(run, "D"), printed_number(run, "G")
    said = [run.source_share(text) for text in ("ld.backward(); od.step()", "lg.backward(); og.step()")]
    assert said[0] * run.cell_s <= discriminator + 0.05
    assert said[1] * run.cell_s <= generator + 0.05
    shares = run.phase_shares()
    assert shares["forward"] + shares["backward"] + shares["optimizer"] >= 0.7, shares
    assert shares["backward"] >= 0.15, shares


@timed
def test_training_in_a_function(play: Play) -> None:
    run = play("transformer_fn")
    whole, evaluated = printed_number(run, "fit"), printed_numbers(run, "evaluate")[0]
    assert abs(run.line_share(20) * run.cell_s - whole) <= 0.02 + 0.02 * whole
    assert abs(run.kind_s("steps") - (whole - evaluated)) <= 0.05 + 0.05 * whole
    line_s = run.source_share("evaluate(); te +=") * run.cell_s
    assert abs(line_s - evaluated) <= 0.05 + 0.15 * evaluated
    shares = run.phase_shares()
    assert shares["evaluation"] <= margin(run), "it runs between the steps, and phases are of steps"
    assert shares["backward"] > shares["optimizer"] * 0.5


def test_training_in_a_thread(play: Play) -> None:
    run = play("bgtrain")
    assert run.printed.strip() == "100 steps"
    rows = run.lines[run.lines["text"].str.contains("loss.backward(); opt.step()", regex=False)]
    assert len(rows), "what the thread trains is in the lines"
    assert "100.0 % of the steps is Python" not in run.verdict, "it trains, in another thread"
    assert len(run.steps) == 100 or "steps" in run.headline or run.codes & {"steps-in-thread", "other-thread"}


@compared
def test_a_trainer_of_ones_own(play: Play) -> None:
    run = play("trainer_class")
    assert run.printed.strip() == "96"
    assert run.off(20, run.line_share(20)) <= margin(run), "the line that calls fit()"
    shares = run.phase_shares()
    assert shares["backward"] > 0.1, shares
    assert shares["optimizer"] > 0.05, shares


@timed
def test_functions_of_an_earlier_cell(play: Play) -> None:
    """Training and validation in functions, one loader each: what waits for data, and where."""
    run = play("epochs")
    said = dict(re.findall(r"(prep|train|val) ([\d.]+)", run.printed))
    inside = run.phases.loc[run.phases["phase"] == "evaluation", "host_ns"].sum()
    outside = run.account.loc[run.account["part"].str.startswith("evaluation"), "dur"].sum()
    # models and their batches; what is made of their output is no model's work
    evaluated, took = float(inside + outside) / 1e9, float(said["val"])
    assert 0.5 * took <= evaluated <= 1.15 * took + 0.02, (inside, outside, run.account)
    assert min(inside, outside) > 0.1e9 * took, "after the first epoch and after the last"
    assert abs(run.part_s(3, 4) - float(said["prep"])) <= 0.02 + 0.1 * float(said["prep"])
    if re.search("most of it in|of that in", sentence := run.verdict.splitlines()[0]):
        assert "loader" in sentence, "no line of the training itself"


def test_shell_commands_and_magics_stand_as_they_were_typed(play: Play) -> None:
    run = play("magics")
    texts = set(run.lines.loc[run.lines["file"] == "cell", "text"])
    assert {"!sleep 0.3", "%run job.py"} <= texts
    assert "get_ipython" not in run.verdict


@timed
def test_times_of_shell_commands_and_magics(play: Play) -> None:
    run = play("magics")
    # beside other jobs a shell took 0.18 s to start from a kernel of 1.9 GiB; the next line has its own time
    assert 0.3 <= run.part_s(2) <= 2.3
    assert run.part_s(3) >= 0.04, "1.5 million additions"
