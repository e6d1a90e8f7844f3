"""Numbers of training: throughput, utilisation of FLOPs, energy, exposed communication, Paddle's timer."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import notebook_prof as nbp
from notebook_prof import Profile, TraceBuilder
from notebook_prof.errors import OptionError
from notebook_prof.statistics import counted_steps, dependence, quantile_interval
from notebook_prof.testing import draw
from tests.recording import add_slices

DATA = Path(__file__).parents[1] / "data"
MS = 1_000_000


def drawn(steps: int = 12, *, counts: bool = False, anew: bool = False, **slices: Any) -> TraceBuilder:
    """Steps of 10 ms and a bit, each with a product of 4 × 8 × 16 forward and two of them backward."""
    builder = TraceBuilder()
    length = [10 * MS + (k % 3) * 100_000 for k in range(steps)]
    begin = np.concatenate([[0], np.cumsum(length)[:-1]])
    builder.steps(range(steps), begin, length, "mark")
    main = builder.track("main")
    parts = [
        ("aten::linear", "forward", 1, "[[4, 8], [16, 8], []]"),
        ("aten::mm", "backward", 5, "[[4, 16], [16, 8]]"),
    ]
    parts.append(("aten::mm", "backward", 6, "[[16, 4], [4, 8]]"))
    if anew:
        parts.append(("aten::linear", "backward", 4, "[[4, 8], [16, 8], []]"))
    for name, phase, at, shapes in parts:
        row = {"name": name, "phase": phase, "shapes": shapes, "track": main, **slices}
        builder.slices(ts=begin + at * MS, dur=np.full(steps, MS // 2), **row)
    if counts:
        table = {"ts": begin + np.array(length) - 10, "tokens": 512.0 + begin / MS, "samples": np.nan}
        builder.table("step_counts", pd.DataFrame(table).astype({"ts": "int64"}))
    return builder


def table_of(builder: TraceBuilder, **options: Any) -> pd.DataFrame:
    return Profile(builder.seal()).training(**options).set_index("quantity")


def test_throughput_is_the_median_over_steps_with_its_interval() -> None:
    table, trace = table_of(drawn(), samples=64), drawn().seal()
    steps = counted_steps(trace)
    rate = 64 / (steps.loc[steps["used"], "dur_ns"].to_numpy(np.float64) / 1e9)
    assert table.loc["samples_per_s", "value"] == pytest.approx(np.median(rate))
    low, high = quantile_interval(rate, 0.5, dependence(rate))
    assert table.loc["samples_per_s", ["lower", "upper"]].tolist() == pytest.approx([low, high])
    assert table.loc["step_time", "value"] == pytest.approx(64 / np.median(rate), rel=0.02)


def test_what_a_step_was_told_goes_before_shapes_and_missing_numbers_fall_back_to_them() -> None:
    table = table_of(drawn(counts=True))
    assert table.loc["tokens_per_s", "source"].startswith("nbp.step(tokens=…)")
    used = counted_steps(drawn().seal()).query("used")
    expected = np.median((512 + used["ts"] / MS) / (used["dur_ns"] / 1e9))
    assert table.loc["tokens_per_s", "value"] == pytest.approx(expected)
    assert table.loc["samples_per_s", "source"].startswith("shapes of aten::linear")


def test_flops_are_those_of_the_products_and_what_is_computed_anew_counts_for_hardware_only() -> None:
    product = 2 * 4 * 8 * 16
    plain, anew = table_of(drawn(), flops_per_s=1e9), table_of(drawn(anew=True), flops_per_s=1e9)
    for table, hardware in ((plain, 3), (anew, 4)):
        forward_bias = table.loc["model_flops", "value"] - 3 * product
        assert 0 <= forward_bias <= 4 * 16
        assert table.loc["hardware_flops", "value"] == pytest.approx(
            table.loc["model_flops", "value"] + (hardware - 3) * (product + forward_bias)
        )
        assert table.loc["mfu", "value"] == pytest.approx(
            table.loc["model_flops", "value"] / table.loc["step_time", "value"] / 1e9, rel=0.02
        )
        assert table.loc["hfu", "value"] >= table.loc["mfu", "value"]


def test_one_product_whose_work_is_not_known_makes_no_sum() -> None:
    builder = drawn()
    main = builder.track("main")
    add_slices(builder, main, "aten::conv2d", 3 * MS, MS, phase="forward", shapes="[[1, 3, 9, 9], [8]]")
    table = table_of(builder, flops_per_s=1e9)
    assert np.isnan(table.loc["mfu", "value"])
    assert "the work of 1 call, such as aten::conv2d" in table.loc["mfu", "reason"]


def test_what_is_not_known_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    # another test may have measured this machine in the same process
    monkeypatch.setattr("notebook_prof.analysis.work.training.ceilings_of", lambda trace: None)
    builder = TraceBuilder()
    builder.steps(range(4), [0, 10, 20, 30], [10] * 4, "mark")
    builder.slices(ts=0, dur=40, name="train", track=builder.track("main"))
    table = table_of(builder)
    unknown = table[table["value"].isna()]
    assert len(unknown) == len(table) - 1
    assert (unknown["reason"].str.len() > 20).all()
    assert "nbp.measure_device()" in table_of(drawn()).loc["mfu", "reason"]
    for wrong in ({"samples": -1}, {"tokens": "many"}, {"samples": [1, 2]}, {"flops_per_s": 0}):
        with pytest.raises(OptionError):
            table_of(drawn(), **wrong)


def test_energy_is_mean_power_times_a_step() -> None:
    builder = drawn()
    until = 121 * MS
    builder.counter(builder.track("GPU 0 energy", "counter", device=0), [0, until], [1000.0, 1012.1])
    table = table_of(builder, tokens=512)
    mean = float(counted_steps(drawn().seal()).query("used")["dur_ns"].mean()) / 1e9
    assert table.loc["device_joules_per_step", "value"] == pytest.approx(100 * mean)
    assert table.loc["joules_per_token", "value"] == pytest.approx(100 * mean / 512)


def test_a_language_model_and_a_network_on_images_tell_their_batches() -> None:
    language = nbp.open_profile(DATA / "torch213_cpu" / "lm_adamw.pt.trace.json.gz")
    table = language.training().set_index("quantity")
    ratio = table.loc["tokens_per_s", "value"] / table.loc["samples_per_s", "value"]
    assert ratio == pytest.approx(64)  # the length of its sequences
    images = nbp.open_profile(DATA / "torch213_cpu" / "cnn_adam.pt.trace.json.gz")
    table = images.training().set_index("quantity")
    assert table.loc["samples_per_s", "source"].startswith("shapes of aten::conv2d")
    assert "do not give the tokens" in table.loc["tokens_per_s", "reason"]


def test_exposed_communication_by_module_sums_to_that_of_the_steps(shared_traces: Path) -> None:
    path = next((shared_traces / "param_dlrm_8rank").glob("worker3_*"))
    p = nbp.open_profile(path)
    by_operation = p.distributed.exposed(by=["operation", "group"])
    assert by_operation["exposed_ns"].sum() == p.distributed.breakdown(by="trace")["exposed_ns"].sum()
    assert p.distributed.exposed()["exposed_ns"].sum() == by_operation["exposed_ns"].sum()
    overlapping = draw(
        "stream 7: [gemm ]\nstream 9:     [a        ]\nstream 11:        [b   ]",
        categories={"a": "collective", "b": "collective"},
    )
    rows = Profile(overlapping).distributed.exposed(by="name")
    assert rows["exposed_ns"].sum() == 8
    with pytest.raises(OptionError, match="did you mean 'module'"):
        p.distributed.exposed(by="modul")


def test_paddles_timer_is_written_to_the_character() -> None:
    builder = drawn(15)
    begin = np.concatenate([[0], np.cumsum([10 * MS + (k % 3) * 100_000 for k in range(15)])[:-1]])
    builder.slices(ts=begin, dur=np.full(15, MS), name="load", phase="data", track=builder.track("main"))
    text = str(Profile(builder.seal()).compat.paddle_timer(samples=64, unit="images"))
    line, title, ratio, unit, head, *rows = text.splitlines()
    assert line == " reader_cost: 0.00100 s batch_cost: 0.01010 s ips: 6336.634 images/s"
    assert title == "Perf Summary".center(100, "=")
    assert unit == "Time Unit: s, IPS Unit: images/s"
    assert head == "|" + "|".join(cell.center(17) for cell in ("", "avg", "max", "min")) + "|"
    # iterations 10 to 14 of the reader, 9 to 14 of batches, both over five; the first is never a minimum
    batch = [10.0, 10.1, 10.2, 10.0, 10.1, 10.2]
    assert ratio == f"Reader Ratio: {100 * 1.0 / (sum(batch) / 5):.3f}%"
    cells = [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]
    assert cells[0] == ["reader_cost", "0.00100", "0.00100", "0.00100"]
    assert cells[1] == ["batch_cost", f"{sum(batch) / 5000:.5f}", "0.01020", "0.01000"]
    assert cells[2][0] == "ips"
    assert cells[2][1] == f"{64 * 6 / sum(batch) * 1000:.5f}"


def test_steps_tell_their_tokens_while_they_are_recorded_and_what_is_no_number_is_reported() -> None:
    nbp.step(tokens=7)  # nothing records: a no-op
    with nbp.profile() as p:
        for k in range(5):
            sum(range(20_000))
            nbp.step(tokens=100 * (k + 1), samples=[3] if k == 2 else np.int64(4))
    table = p.trace.metadata["tables"]["step_counts"]
    assert table["tokens"].tolist() == [100, 200, 300, 400, 500]
    assert table["samples"].tolist() == pytest.approx([4, 4, np.nan, 4, 4], nan_ok=True)
    assert "step-count-unread" in {issue.code for issue in p.trace.report}
    rate = p.training().set_index("quantity")["value"]
    used = counted_steps(p.trace).query("used")
    expected = np.median(100 * (used["step"] + 1) / (used["dur_ns"] / 1e9))
    assert rate["tokens_per_s"] == pytest.approx(expected)


def test_what_checkpointing_computes_anew_is_work_of_the_hardware_and_not_of_the_model() -> None:
    torch = pytest.importorskip("torch")
    checkpoint = pytest.importorskip("torch.utils.checkpoint").checkpoint
    block = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.ReLU(), torch.nn.Linear(64, 32))
    embedding = torch.nn.Embedding(100, 32)

    def recorded(anew: bool) -> pd.DataFrame:
        with nbp.profile(shapes=True) as p:
            for _ in range(3):
                hidden = embedding(torch.randint(0, 100, (4, 16)))
                hidden = checkpoint(block, hidden, use_reentrant=False) if anew else block(hidden)
                hidden.sum().backward()
                nbp.step()
        return p.training().set_index("quantity")

    plain, anew = recorded(False), recorded(True)
    assert plain.loc["tokens_per_s", "source"].startswith("shapes of aten::embedding")
    model, hardware = (table.loc[["model_flops", "hardware_flops"], "value"] for table in (plain, anew))
    assert model["model_flops"] == model["hardware_flops"]
    relu = 4 * 16 * 64  # what is computed anew outside of products, convolutions and attention stays in both
    assert hardware["model_flops"] == pytest.approx(model["model_flops"] + relu, abs=2 * relu)
    products = 2 * (2 * 4 * 16 * 32 * 64)
    assert hardware["hardware_flops"] - hardware["model_flops"] == pytest.approx(products, rel=0.05)
