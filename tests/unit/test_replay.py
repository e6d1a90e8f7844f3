"""p.replay: calls as they were recorded, run alone in turns, with nothing of the user's changed."""

from __future__ import annotations

import importlib
import json
import math
import random
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import notebook_prof as nbp
from notebook_prof.analysis.work.arguments import optimizer_steps
from notebook_prof.collectors.torch.replay import turns
from notebook_prof.collectors.torch.replay.calls import CannotReplayError, RecordedCall, prepare
from notebook_prof.collectors.torch.replay.isolation import changed, isolated
from notebook_prof.collectors.torch.replay.turns import MeasuredTurn, RecordedStep, prepare_step
from notebook_prof.profiles.replay import Replayed
from notebook_prof.units import format_ns

torch = pytest.importorskip("torch")
CONVOLUTION = "aten::convolution_backward"


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few and short turns: times are planted where they matter, and the machine may be busy."""
    monkeypatch.setattr(turns, "MOST_ROUNDS", 3)
    monkeypatch.setattr(turns, "_TURN_NS", 2e5)


@pytest.fixture(scope="module")
def cnn(data: Path) -> nbp.Profile:
    return nbp.open_profile(data / "torch213_cpu/cnn_adam.pt.trace.json.gz")


def recorded(p: nbp.Profile, name: str) -> list[RecordedCall]:
    return calls_of(p.operators.arguments(name=name))


def calls_of(table: pd.DataFrame) -> list[RecordedCall]:
    columns = ["name", "shapes", "dtypes", "strides", "concrete", "count"]
    return [RecordedCall(device="cpu", **row) for row in table[columns].to_dict("records")]


def test_arguments_add_up_to_operators(cnn: nbp.Profile) -> None:
    table, whole = cnn.operators.arguments(), cnn.operators(by=["name", "shapes"])
    whole = whole[whole["shapes"].notna()]
    for column in ("count", "total_ns", "device_ns"):
        sums = table.groupby("name")[column].sum()
        assert sums.to_dict() == whole.groupby("name", observed=True)[column].sum().to_dict()
    assert (table["total_ns"].diff().dropna() <= 0).all()
    one = cnn.operators.arguments(name=CONVOLUTION)
    assert set(one["name"]) == {CONVOLUTION}
    assert all(
        len(json.loads(text)) == 11 for name in ("dtypes", "strides", "concrete") for text in one[name]
    )


@pytest.mark.parametrize("sample", ["cnn_adam", "lm_adamw"])
def test_every_operator_of_a_recording_is_made_again_as_it_was(data: Path, sample: str) -> None:
    p = nbp.open_profile(data / f"torch213_cpu/{sample}.pt.trace.json.gz")
    made, refused = Counter[str](), []
    with isolated(torch):
        torch.set_num_threads(1)
        for call in calls_of(p.operators.arguments().groupby("name", sort=False).head(3)):
            try:
                prepared = prepare(torch, call, 1 << 30)
            except CannotReplayError as error:
                refused.append(str(error))
                continue
            shapes, strides = (json.loads(text) for text in (call.shapes, call.strides))
            for value, shape, steps in zip(prepared.args, shapes, strides, strict=False):
                if isinstance(value, torch.Tensor):
                    assert (list(value.shape), list(value.stride())) == (shape, steps), call
            prepared()
            made[call.name] += 1
    assert {one for one in made if one.startswith("aten::")} >= {
        "aten::addmm",
        "aten::add_",
        "aten::native_batch_norm_backward" if sample == "cnn_adam" else "aten::embedding_dense_backward",
        CONVOLUTION if sample == "cnn_adam" else "aten::native_layer_norm_backward",
    }
    assert sum(made.values()) > 75
    whys = re.compile(
        r"is not an operator with a schema|takes no tensor|'source' of aten::set_|list of aten::\w+ were not"
    )
    assert [reason for reason in refused if not whys.search(reason)] == []


def test_nothing_of_the_users_changes(cnn: nbp.Profile) -> None:
    torch.manual_seed(7)
    expected = torch.rand(3), random.Random(7).random()
    torch.manual_seed(7)
    random.seed(7)
    threads = torch.get_num_threads()
    numbers = np.random.get_state()[1].copy()  # type: ignore[index]  # noqa: NPY002
    torch.set_default_dtype(torch.float64)
    torch.backends.cudnn.benchmark = True
    weights = torch.ones(3, requires_grad=True)
    try:
        answer = cnn.replay("aten::relu", [f"threads={threads + 1}", "bf16"], seconds=60)
        assert answer.tries["after_ns"].notna()[1], "it ran"
        with pytest.raises(nbp.NotebookProfError):
            cnn.replay("aten::empty", "bf16")
        assert torch.get_default_dtype() == torch.float64
        assert torch.backends.cudnn.benchmark
    finally:
        torch.set_default_dtype(torch.float32)
        torch.backends.cudnn.benchmark = False
    assert torch.get_num_threads() == threads
    assert torch.is_grad_enabled()
    assert weights.requires_grad
    assert weights.grad is None
    assert torch.equal(torch.rand(3), expected[0])
    assert random.random() == expected[1]
    assert (np.random.get_state()[1] == numbers).all()  # type: ignore[index]  # noqa: NPY002


def test_results_are_compared(cnn: nbp.Profile) -> None:
    calls = recorded(cnn, CONVOLUTION)[:1]
    measured, _ = turns.replay(calls, ["channels_last", "bf16", "fp64", "contiguous"], 60, 1 << 30)
    base, layout, half, double, contiguous = measured
    assert base.relative == 0
    assert 0 <= layout.relative < 1e-4
    assert 1e-4 < half.relative < 0.1
    assert 0 < double.relative < 1e-4
    assert (contiguous.reason, len(contiguous.times)) == ("all inputs were contiguous", 0)
    prepared = prepare(torch, calls[0], 1 << 30)
    with isolated(torch):
        exact = torch.ops.aten.convolution_backward(*prepared.args)
        low = torch.ops.aten.convolution_backward(
            *(one.bfloat16() if isinstance(one, torch.Tensor) else one for one in prepared.args)
        )
    off = max(float((b.double() - a.double()).abs().max()) for a, b in zip(exact[1:], low[1:], strict=True))
    assert half.difference == pytest.approx(off)


def test_an_operator_that_writes_begins_each_time_with_the_same_numbers() -> None:
    call = RecordedCall("aten::mul_", "[[4], []]", '["float","double"]', "[[1],[]]", '["",""]', 1, "cpu")
    measured, _ = turns.replay([call], ["fp64"], 60, 1 << 20)
    assert measured[1].relative < 1e-6  # one product; thousands in a row would be 0 or infinite


def test_other_results_are_worth_nothing(cnn: nbp.Profile, monkeypatch: pytest.MonkeyPatch) -> None:
    took = float(cnn.operators.arguments(name=CONVOLUTION)["total_ns"].sum())

    def measured(calls: Sequence[RecordedCall], *_: Any) -> Any:
        drift = np.linspace(0.99, 1.01, 8).reshape(4, 2)
        ways = [MeasuredTurn(name, took / 2 * drift, 1.0, 0.5) for name in ("channels_last", "bf16")]
        return [MeasuredTurn("", np.full((4, 2), took)), *ways], list(calls)

    monkeypatch.setattr(turns, "replay", measured)
    layout, half = cnn.replay(CONVOLUTION, ["channels_last", "bf16"], calls=99).tries.to_dict("records")
    assert "its results are different" in layout["reason"]
    assert half["gain_ns"] > 0


def test_an_operator_that_changes_shapes_is_refused() -> None:
    texts = "[[0], [], []]", '["float","ScalarList",""]', "", '["","[4]",""]'
    with pytest.raises(nbp.NotebookProfError, match="changes the shape of its input"):
        turns.replay([RecordedCall("aten::resize_", *texts, 1, "cpu")], ["bf16"], 60, 1 << 20)


def test_compiled_by_code_of_its_own(cnn: nbp.Profile) -> None:
    torch.compiler.reset()
    function = torch.compile(lambda x: x * 2, backend="aot_eager")
    function(torch.ones(2))
    call = recorded(cnn, "aten::relu")[0]
    with isolated(torch):
        base = prepare(torch, call, 1 << 30)
        original = torch.compile
        try:
            torch.compile = lambda f, **kwargs: original(f, backend="aot_eager", **kwargs)
            first, second = (changed(torch, base, "compile") for _ in range(2))
        finally:
            torch.compile = original
        assert torch.equal(first(), base())
        assert torch.equal(second(), base())
    with torch._dynamo.config.patch(error_on_recompile=True):
        function(torch.ones(2))  # what the user has compiled is still there


PLANTED = {"bf16": 0.5, "fp16": 1.0, "fp64": 1.5}


def planted(monkeypatch: pytest.MonkeyPatch, p: nbp.Profile, operator: str, noise: float = 0.01) -> Replayed:
    """Replay with times that are known: as recorded, and a factor for each try."""
    table = p.operators.arguments(name=operator)
    of_recording = float(table["total_ns"].sum())

    def measured(calls: Sequence[RecordedCall], names: Sequence[str], *_: Any) -> Any:
        drift = 1 + noise * np.random.default_rng(0).standard_normal((3, 8, 2))
        ways = [
            MeasuredTurn(name, of_recording * PLANTED[name] * drift[i % 3], 0.0, 0.0)
            for i, name in enumerate(names)
        ]
        return [MeasuredTurn("", of_recording * drift[1]), *ways], list(calls)

    monkeypatch.setattr(turns, "replay", measured)
    answer: Replayed = p.replay(operator, list(PLANTED), calls=99)
    return answer


def test_a_gain_is_that_of_what_if(cnn: nbp.Profile, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = planted(monkeypatch, cnn, CONVOLUTION)
    table = answer.tries.set_index("try")
    assert table["change"].round(1).to_dict() == {"bf16": -0.5, "fp16": 0.0, "fp64": 0.5}
    assert table["significant"].tolist() == [True, False, True]
    assert (table["low"] <= table["change"]).all()
    assert (table["change"] <= table["high"]).all()
    gain = cnn.what_if(scale={CONVOLUTION: 1 + table.loc["bf16", "change"]}).gain
    assert table.loc["bf16", "gain_ns"] == gain
    assert table.loc["bf16", "lower_ns"] <= gain <= table.loc["bf16", "upper_ns"]
    assert table.loc["fp64", "gain_ns"] < 0
    assert answer.covered == 1.0
    text = str(answer).splitlines()
    assert text[1].startswith("bf16: ")
    assert f"worth {format_ns(gain)} a step" in text[1]
    assert "no change is shown" in text[2]
    assert f"it costs {format_ns(-table.loc['fp64', 'gain_ns'])} a step" in text[3]
    for row, line in zip(answer.tries.to_dict("records"), text[1:], strict=True):
        assert row["after_ns"] == pytest.approx((1 + row["change"]) * row["before_ns"], abs=1)
        assert f"{format_ns(row['before_ns'])} → {format_ns(row['after_ns'])} a call" in line


def test_calls_not_replayed_count_as_unchanged(cnn: nbp.Profile, monkeypatch: pytest.MonkeyPatch) -> None:
    kinds = cnn.operators.arguments(name=CONVOLUTION)
    took = {"": float(kinds["total_ns"].iloc[0]), "bf16": 1.0}
    measured = [MeasuredTurn(name, np.full((4, 2), ns)) for name, ns in took.items()]
    monkeypatch.setattr(turns, "replay", lambda calls, *_: (measured, list(calls)[:1]))
    answer = cnn.replay(CONVOLUTION, "bf16")
    assert answer.calls["replayed"].tolist() == [True, *[False] * (len(kinds) - 1)]
    assert answer.covered == pytest.approx(kinds["total_ns"].iloc[0] / kinds["total_ns"].sum())
    most = cnn.what_if(scale={CONVOLUTION: 1 - answer.covered}).gain
    assert answer.tries["gain_ns"].item() == pytest.approx(most, abs=10)


@pytest.mark.parametrize(
    ("operator", "tries", "message"),
    [
        ("aten::relu", "bf61", "bf16"),
        ("aten::relu", "threads=0", "threads=2"),
        ("aten::convolution_bakward", "bf16", "aten::convolution_backward"),
        ("ConvolutionBackward0", "bf16", "name an operator inside it"),
        ("aten::empty", "bf16", "takes no tensor"),
    ],
)
def test_what_nobody_can_replay_is_refused(cnn: nbp.Profile, operator: str, tries: str, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        cnn.replay(operator, tries, seconds=60)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            RecordedCall("mine::op", "[[2]]", '["float"]', "", '[""]', 1, "cpu"),
            "import the package that registers",
        ),
        (RecordedCall("aten::relu", "[[2]]", "", "", "", 1, "cpu"), "--shapes"),
        (RecordedCall("aten::relu", "[[2]]", '["mystery"]', "", '[""]', 1, "cpu"), "'mystery'"),
        (
            RecordedCall("aten::relu", "[[2], []]", '["float",""]', "", '["",""]', 1, "cpu"),
            "no overload for 2",
        ),
        (RecordedCall("aten::relu_", "[[3, 4]]", '["float"]', "[[8,1]]", '[""]', 1, "cpu"), "into a view"),
        (
            RecordedCall("aten::cat", "[[], []]", '["TensorList","Scalar"]', "", '["","0"]', 1, "cpu"),
            "up to 30",
        ),
        (RecordedCall("aten::relu", "[[1000000]]", '["float"]', "", '[""]', 1, "cpu"), "memory="),
        (
            RecordedCall("aten::index", "[[4], []]", '["float",""]', "", '["",""]', 1, "cpu"),
            "'indices' of aten::index was not recorded",
        ),
    ],
)
def test_calls_that_cannot_be_made(call: RecordedCall, message: str) -> None:
    with pytest.raises(nbp.NotebookProfError, match=re.escape(message)):
        turns.replay([call], ["bf16"], 60, 1 << 20)


def test_more_time_is_asked_for(cnn: nbp.Profile, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns._Runner, "time_ns", lambda runner: 1e9)
    with pytest.raises(nbp.NotebookProfError, match=r"needs about 24 s .* seconds=24"):
        turns.replay(recorded(cnn, "aten::relu")[:1], ["bf16"], 0.5, 1 << 30)


def test_a_live_recording_is_replayed_as_its_file_would_be() -> None:
    x = torch.randn(2, 3, 8, 8).to(memory_format=torch.channels_last)
    with nbp.profile("torch") as p:
        torch.nn.functional.softmax(x.permute(0, 2, 3, 1), dim=1)
    call = recorded(p, "aten::_softmax")[0]
    prepared = prepare(torch, call, 1 << 20)
    assert prepared.args[0].stride() == x.permute(0, 2, 3, 1).stride()
    assert prepared.args[1:] == (1, False)
    answer = p.replay("aten::_softmax", "contiguous", seconds=60)
    assert answer.tries["reason"].tolist() == ["all inputs were contiguous"]
    assert not math.isnan(answer.alone_ns)


@pytest.mark.parametrize(("sample", "optimizer"), [("cnn_adam", "Adam"), ("lm_adamw", "AdamW")])
def test_a_step_of_an_optimizer_is_made_again(data: Path, sample: str, optimizer: str) -> None:
    p = nbp.open_profile(data / f"torch213_cpu/{sample}.pt.trace.json.gz")
    name = f"Optimizer.step#{optimizer}.step"
    steps = optimizer_steps(p.trace, name)
    assert (steps.optimizer, steps.way, steps.count) == (optimizer, "for-loop", len(p.trace.steps))
    gradients = p.operators.arguments(name="torch::autograd::AccumulateGrad")
    assert len(steps.shapes) * steps.count == gradients["count"].sum()
    answer = p.replay(name, ["fused", "foreach", "bf16"], seconds=60)
    fused, foreach, other = answer.tries.to_dict("records")
    assert fused["relative"] < 1e-5
    assert foreach["relative"] < 1e-5
    assert "step of an optimizer" in other["reason"]
    assert answer.covered == 1.0
    assert answer.recorded_ns == round(p.operators(name=name)["total_ns"].item() / steps.count)


def test_a_step_of_an_optimizer_calls_no_hook_of_the_users(cnn: nbp.Profile) -> None:
    calls: list[Any] = []
    hooks = importlib.import_module("torch.optim.optimizer")
    hook = hooks.register_optimizer_step_pre_hook(lambda *_: calls.append(1))
    try:
        cnn.replay("Optimizer.step#Adam.step", "fused", seconds=60)
    finally:
        hook.remove()
    assert calls == []


def test_an_update_is_that_of_torch(cnn: nbp.Profile) -> None:
    step = RecordedStep("s", "SGD", ((2, 3), (4,)), ("float", "float"), "for-loop", 1, "cpu")
    with isolated(torch):
        prepared = prepare_step(torch, step, 1 << 20)
        before = [one.detach().clone() for one in prepared.args[0][:2]]
        after = prepared()
        for one, old in zip(after, before, strict=True):
            assert torch.allclose(one, old - 1e-3 * one.grad)


@pytest.mark.parametrize(
    ("step", "way", "message"),
    [
        (("Lion", "for-loop"), "", "torch.optim has no Lion"),
        (("LBFGS", "for-loop"), "fused", "no argument 'fused'"),
        (("Adam", "fused"), "fused", "was fused when it was recorded"),
        (("Adam", "for-loop"), "compile", "step of an optimizer"),
    ],
)
def test_steps_that_cannot_be_made(step: tuple[str, str], way: str, message: str) -> None:
    recorded_step = RecordedStep("s", step[0], ((2,),), ("float",), step[1], 1, "cpu")
    with isolated(torch), pytest.raises(CannotReplayError, match=re.escape(message)):
        made_again(recorded_step, way)


def made_again(step: RecordedStep, way: str) -> None:
    """Ask for another way of a step that can be made as it was, else for the step."""
    if step.optimizer == "Adam":
        prepare_step(torch, step, 1 << 20).remade(way)  # type: ignore[misc]
    else:
        prepare_step(torch, step, 1 << 20, way)


def test_gradients_that_add_up_are_refused() -> None:
    network = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Linear(3, 3))
    optimizer = torch.optim.SGD(network.parameters())
    with nbp.profile("torch") as p:
        for _ in range(2):
            network(torch.ones(2, 3)).sum().backward()
        optimizer.step()
    with pytest.raises(nbp.NotebookProfError, match="summed over several backward passes"):
        p.replay("Optimizer.step#SGD.step", "foreach")


def test_advice_names_the_call_that_tries_it(cnn: nbp.Profile) -> None:
    remedy = cnn.advice().set_index("rule").loc["unfused-optimizer", "remedy"]
    call = re.search(r"p\.replay\('(.+)', '(.+)'\) tries it\.$", remedy)
    assert call is not None
    assert cnn.replay(*call.groups(), seconds=60).tries["try"].tolist() == ["fused"]
