"""Training loops as people write them: steps, phases, evaluation, leaks.

Each truth is in docs/truth.md; what the cell prints itself is the truth of the same run.
"""

import re

from .conftest import Play, books, compared, timed
from .laws import check_statements, margin
from .runner import Run
from .test_python import check_cpu, printed_number


def printed_numbers(run: Run, word: str) -> list[float]:
    """All numbers that the cell printed behind a word."""
    return [float(number) for number in re.findall(re.escape(word) + r" (\d+(?:\.\d+)?)", run.printed)]


def of_steps(run: Run, line: int) -> float:
    """Share of the time of all steps that a line takes, with what it calls."""
    row = run.line(line)
    return 0.0 if row is None else float(row["total_ns"]) / float(run.steps["dur"].sum())


@timed
def test_preparing_in_python_is_no_framework_overhead(play: Play) -> None:
    run = play("torchimp_trainprep")
    # 262,144 multiplications in Python against one small layer: nearly all of a step
    assert of_steps(run, 10) >= 0.6
    # of the steps: an optimizer that is the kernel's first takes a second to import what it needs.
    # Some ten samples see the lines of augment(): 54 to 83 % of the steps in 16 runs, 42 in one that failed
    inside = [run.line(number) for number in (4, 5, 6, 7)]
    own_ns = sum(float(row["self_ns"]) for row in inside if row is not None)
    assert own_ns >= 0.15 * float(run.steps["dur"].sum()), inside
    assert "framework overhead" not in run.verdict.splitlines()[0]
    assert re.search(r"augment|out\.append|(cell:|line )10", run.verdict), run.verdict
    assert all(gain <= 0.3 for words, gain in run.advised if "compile" in words), run.advised


def test_evaluation_is_a_part_of_its_own(play: Play) -> None:
    run = play("eval_outside_steps")
    assert int(run.account["steps"].sum()) == 64
    parts = run.account.loc[run.account["line"].between(7, 9).fillna(False), "part"]
    assert parts.str.contains("evaluation").any()


@timed
def test_evaluation_takes_what_the_cell_measured(play: Play) -> None:
    run = play("eval_outside_steps")
    evaluated = sum(printed_numbers(run, "eval"))
    code_s = run.part_s(7, 9, "code")
    # the cell prints hundredths of a second, twice; model.eval() and the prints are a millisecond
    assert abs(code_s - evaluated) <= 0.03 + 0.05 * evaluated, run.account.to_string()
    assert run.part_s(4, 5) + code_s >= 0.9 * run.cell_s
    if evaluated > 0.5 * run.cell_s:
        assert "evaluation" in run.verdict.lower(), run.verdict


def test_three_models_are_three_loops(play: Play) -> None:
    run = play("three_models")
    assert run.steps.groupby("loop").size().tolist() == [20, 20, 20]
    assert int(run.account["steps"].sum()) == 60
    assert run.steps["step"].is_unique


@timed
def test_the_line_that_trains_three_models(play: Play) -> None:
    run = play("three_models")
    assert run.part_s(6, 7) >= 0.8 * (run.cell_s - run.kind_s("profiler"))


@timed
def test_the_closure_of_lbfgs_is_forward_and_backward(play: Play) -> None:
    run = play("lbfgs")
    shares = run.phase_shares()
    # beside its closure LBFGS multiplies all parameters with up to thirty directions, as long or longer
    # where threads wait for a core. So no share is sure, but the closure is all of line 6
    assert abs(shares["forward"] + shares["backward"] - of_steps(run, 6)) <= margin(run), shares
    assert shares["forward"] >= 0.05
    assert shares["backward"] >= 0.05
    assert not re.search(r"\b99(\.\d)? %", run.verdict.splitlines()[0])


@timed
def test_an_environment_is_not_forward(play: Play) -> None:
    run = play("rl")
    forward, environment = printed_number(run, "forward"), printed_number(run, "env")
    whole = run.part_s(6, 11)
    # the model's forward is what the cell timed around it, and at most log_softmax beside it
    shares = run.phase_shares()
    assert shares["forward"] <= forward / whole + margin(run) + 0.05, shares
    line_s = run.source_share("s,r=env.step(0)") * run.cell_s
    assert abs(line_s - environment) <= 0.1 * environment + 0.03, (line_s, environment)
    # py-spy waits for an exponential time of 5 ms: 24 looks, by Poisson's law give or take 5, see the sleep
    assert run.source_share("time.sleep(0.002)") * run.cell_s >= 60 * 0.002 - 2 * 5 * 0.005


def test_kept_activations_are_found(play: Play) -> None:
    run = play("torch_leak_acts")
    rows = run.memory_growth.sort_values("bytes_per_step", ascending=False)
    assert len(rows)
    # 128 x 512 float32 of a Linear, and as many of the ReLU behind it where it is not in place, are kept
    top = rows.iloc[0]
    assert top["bytes_per_step"] >= 250 * 1024, rows.to_string()
    assert re.search(r"addmm|linear|relu|clamp", str(top["operator"])), rows.to_string()
    text = " ".join([run.headline, *(words for words, _ in run.advised)])
    assert "4 B" not in text
    assert re.search(r"25\d(\.\d+)? KiB|51\d(\.\d+)? KiB|262 kB|\d+(\.\d+)? MiB", text), text


@timed
def test_a_slow_dataset_is_named(play: Play) -> None:
    run = play("slowdata")
    # 320 rows of at least 1 ms each
    asleep = run.source_share("time.sleep(0.001)") * run.cell_s
    assert 0.9 * 0.32 <= asleep <= run.cell_s
    shares = run.phase_shares()
    assert abs(shares["data"] - run.line_share(2)) <= 0.2, "the loop's head is what fetches"
    text = " ".join([run.verdict, *(words for words, _ in run.advised)])
    assert re.search(r"__getitem__|time\.sleep", text), text
    assert "opt.zero_grad" not in run.verdict.splitlines()[0], (
        "data is not waited for in the line that trains"
    )
    # a step without its data is what workers can leave at best: they work beside it
    workers = [gain for words, gain in run.advised if "workers" in words]
    assert workers
    assert 0.25 * shares["data"] <= max(workers) <= shares["data"] + 0.05


def test_micro_batches_and_updates_are_told_apart(play: Play) -> None:
    run = play("gradaccum")
    assert run.printed.strip() == "32 batches 8 optimizer steps"
    assert len(run.steps) in (32, 8)
    text = " ".join([run.verdict, *run.account["part"]])
    assert re.search(r"\b32\b", text), text
    assert re.search(r"\b8\b", text), text


@timed  # children that other jobs keep from the cores are no reason to wait
def test_training_in_children_is_reported(play: Play) -> None:
    run = play("ddp")
    assert re.search(r"child|process|rank", run.verdict), run.verdict


@books
def test_training_in_children_is_in_the_account(play: Play) -> None:
    run = play("ddp")
    check_cpu(run)
    assert children_cpu_s(run) >= 0.7 * (run.used["children_s"] - run.used["helpers_s"])
    assert run.part_s(2) >= 0.9 * run.cell_s


def children_cpu_s(run: Run) -> float:
    """CPU seconds of child processes by the recorded table."""
    rows = run.cpu[run.cpu["tid"] == -1].sort_values("ts")
    each = rows.groupby("pid")["cpu_ns"]
    return float((each.last() - each.first()).sum()) / 1e9


def test_updates_of_two_micro_batches_are_counted(play: Play) -> None:
    run = play("nanogpt")
    assert run.printed.startswith("20 estimate_loss")
    text = " ".join([run.verdict, *run.account["part"]])
    assert re.search(r"\b20\b", text), text


@timed
def test_evaluation_in_the_middle_of_a_loop(play: Play) -> None:
    run = play("nanogpt")
    evaluated = printed_number(run, "estimate_loss")
    line_s = run.source_share("estimate_loss(); te+=") * run.cell_s
    # the clock stands around estimate_loss() alone, on the line that is told
    assert abs(line_s - evaluated) <= 0.05 * evaluated + 0.02
    shares = run.phase_shares()
    assert abs(shares["evaluation"] - evaluated / run.cell_s) <= 0.1, shares
    assert shares["backward"] > shares["forward"] > 0.02, "two micro-batches forward and backward an update"


@compared
def test_a_backward_written_by_hand_is_backward(play: Play) -> None:
    run = play("checkpoint_customfn")
    shares = run.phase_shares()
    assert shares["backward"] >= 32 * 0.002 / (float(run.steps["dur"].sum()) / 1e9) - 0.02
    check_statements(run)


@timed
def test_python_inside_of_an_operator_has_its_line(play: Play) -> None:
    run = play("checkpoint_customfn")
    # backward of Sq sleeps for 2 ms a step; py-spy waits for an exponential time, so the number of looks that
    # see it is Poisson's, and each stands for the time to the next one
    deviation = 0.0025 * (2 * 32 * 0.8) ** 0.5
    asleep = run.source_share("def backward(ctx, g): x, = ctx.saved_tensors; time.sleep") * run.cell_s
    assert asleep >= 32 * 0.002 - 3 * deviation


@timed
def test_lines_inside_of_an_operator_that_holds_no_other(play: Play) -> None:
    """Of a ``backward`` in plain Python torch tells one operator without anything inside."""
    run = play("python_backward")
    texts = {"lookup": "time.sleep(0.12)", "weights": "weights(1_000_000)", "save": "time.sleep(0.06)"}
    share_of = {word: run.source_share(text) for word, text in texts.items()}
    for word, share in share_of.items():
        assert abs(share - printed_number(run, word) / run.cell_s) <= 0.15, (word, share_of, run.printed)
    assert "operators of the framework" not in run.verdict


@compared
def test_a_loop_of_gradients_without_an_optimizer(play: Play) -> None:
    run = play("func_vmap")
    check_statements(run)
    assert run.part_s(6, 7) + run.part_s(2) >= 0.8 * (run.cell_s - run.kind_s("profiler"))
