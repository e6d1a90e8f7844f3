"""The brief: what it says are numbers that its own calls give, and less of it is a part of more of it.

Samples of every format are asked in ``tests/analysis/test_samples.py``.
"""

from __future__ import annotations

import gzip
import inspect
import json
import pstats
import re
import statistics
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

from notebook_prof.analysis.scope import sharing
from notebook_prof.cli.main import main
from notebook_prof.errors import OptionError
from notebook_prof.profiles.brief.brief import MIME, Brief, brief_of_statements, token_bound
from notebook_prof.profiles.brief.statements import SECTIONS, Statements
from notebook_prof.profiles.files import open_profile
from notebook_prof.profiles.profile import Profile
from notebook_prof.testing import draw, traces
from notebook_prof.trace import Trace

from .. import samples
from ..browser.drawn import drawn_profile
from ..browser.drawn_cell import cell_profile
from ..draws import draws

MOST_JSON = 16_384
"""Bytes of the JSON in a notebook's output."""
EVERYTHING = 20_000
USUAL = 800


def check_numbers(profile: Profile, brief: Brief) -> None:
    """Each number's call runs, and gives it; the text's legend has the same calls."""
    results = {call: eval(call, {"p": profile}) for call in brief.calls}
    content = json.loads(brief.to_json())
    for statement, plain in zip(brief.statements, content["statements"], strict=True):
        assert statement.section in SECTIONS
        assert len(plain["numbers"]) == len(statement.numbers)
        for number in plain["numbers"]:
            call = content["calls"][number["call"] - 1]
            value: Any = results[call]
            if "row" in number:
                value = value.iloc[number["row"]]
                value = value[number["column"]] if "column" in number else value
            expected = number["value"]
            same = (
                value == expected
                if isinstance(expected, str)
                else np.isclose(float(value), expected, rtol=1e-9)
            )
            assert same, (call, number, value)
            assert number["text"] in plain["text"]
    legend = dict(re.findall(r"^\[(\d+)\] (p\..*|len\(p.*|0\.0)$", brief.text, re.MULTILINE))
    assert [legend[str(number)] for number in range(1, len(brief.calls) + 1)] == list(brief.calls)


def check_brief(trace: Trace) -> None:
    """All that holds of the brief of a recording."""
    profile = Profile(trace)
    verdict, trust = profile.verdict, profile.trust
    statements = sharing(lambda trace: list(Statements(trace, verdict, trust)))(trace)
    whole, usual = (brief_of_statements(statements, tokens, verdict.kind) for tokens in (EVERYTHING, USUAL))
    assert whole.complete
    check_numbers(profile, whole)
    assert usual.tokens <= USUAL
    assert len(usual.to_json().encode()) <= MOST_JSON
    check_subset(usual, whole)
    for table, question in (
        ("steps", "how long a step takes"),
        ("lines", "which line"),
        ("device", "what devices did"),
    ):
        answers = bool(len(getattr(profile, table)()))
        assert (f"Cannot answer {question}" in whole.text) is not answers


def check_subset(small: Brief, large: Brief) -> None:
    """Every line of the smaller one is a line of the larger one, in the same order."""
    lines = iter(large.text.splitlines())
    assert all(line in lines for line in small.text.splitlines() if not line.startswith("There is more"))


@settings(max_examples=draws(8))
@given(traces())
def test_what_a_brief_says_of_drawn_traces(trace: Trace) -> None:
    profile = Profile(trace)
    check_numbers(profile, profile.brief(tokens=EVERYTHING))


def test_a_recorded_cell() -> None:
    """Its lines are said by their number and source; what was recorded of it is no longer unanswered."""
    profile = cell_profile()
    check_brief(profile.trace)
    assert inspect.signature(Profile.brief).parameters["tokens"].default == USUAL
    text = profile.brief(tokens=EVERYTHING).text
    top = profile.lines().iloc[0]
    assert f"Line cell:{top['line']} `" in text
    assert "Cannot answer which line" not in text


def test_a_chain_of_causes_leads_from_the_device_to_the_host() -> None:
    profile = drawn_profile(gpu=True)
    check_brief(profile.trace)
    profile = open_sample("shared/hta/trace_diff/test.json.gz")
    statements = profile.brief(tokens=EVERYTHING).statements
    said = [one for one in statements if str(one.parts[0]).startswith("Longest gap")]
    idle = profile.device.idle()
    longest = idle.loc[idle["dur"].idxmax()]
    (number,) = said[0].numbers
    assert number.call.startswith(f"p.why({longest['ts'] + longest['dur'] // 2}, ")
    assert (
        str(number.value)
        == profile.why(
            int(longest["ts"] + longest["dur"] // 2), int(number.call.split(", ")[1].partition(")")[0])
        ).text
    )


def test_threads_that_wait_do_not_lead() -> None:
    """Of a sum over threads ``lock.acquire`` would lead; the thread of the steps does other things."""
    trace = draw(
        """
        steps: [0      ][1      ]
        main:  [mm/forward][relu]
        pool:  [lock.acquire    ]
        idle:  [lock.acquire    ]
        """,
        unit_ns=1_000_000,
        categories={"lock.acquire": "python", "mm": "operator", "relu": "operator"},
    )
    text = Profile(trace).brief(tokens=EVERYTHING).text
    assert "mm" in text
    assert "lock.acquire" not in text


def open_sample(sample: str) -> Profile:
    """A Profile of it; skips where it is not here."""
    path = samples.path_of(sample)
    if not path.exists():
        pytest.skip("the shared recordings are not here")
    return open_profile(path)


def step_times(path: Path) -> list[float]:
    """Durations of PyTorch's step ranges in a file, in ns, read without our readers."""
    events = json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]
    return [
        1000 * one["dur"]
        for one in events
        if str(one.get("name")).startswith("ProfilerStep#") and one.get("cat") == "user_annotation"
    ]


def kernel_times(path: Path) -> dict[str, float]:
    """Time of each kernel of a file in which the profiler of PyTorch kept steps, in µs."""
    events = json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]
    out: dict[str, float] = {}
    for one in events:
        if one.get("cat") == "kernel":
            out[one["name"]] = out.get(one["name"], 0.0) + one["dur"]
    return out


@pytest.mark.parametrize(
    "sample", ["data/torch213_cpu/cnn_adam.pt.trace.json.gz", "data/torch213_cpu/cnn_sgd.pt.trace.json.gz"]
)
def test_how_long_does_a_step_take(sample: str) -> None:
    text = open_sample(sample).brief().text
    times = step_times(samples.path_of(sample))
    median = re.search(r"median ([\d.]+) ms", text)
    assert f"{len(times)} steps" in text
    assert median is not None
    assert float(median[1]) == pytest.approx(statistics.median(times) / 1e6, rel=0.05)


def test_which_function_takes_the_time_itself() -> None:
    sample = "data/python_profilers/profile.pstats"
    rows = pstats.Stats(str(samples.path_of(sample))).stats.items()  # type: ignore[attr-defined]
    (_, _, name), top = max(rows, key=lambda row: row[1][2])
    whole = sum(row[1][2] for row in rows)
    text = open_sample(sample).brief().text
    assert f"{name} itself takes {100 * top[2] / whole:.1f} %" in text


def test_which_kernel_takes_the_most() -> None:
    sample = "shared/tracelens/torch_compile_triton/trace.json.gz"
    profile = open_sample(sample)
    times = kernel_times(samples.path_of(sample))
    whole = profile.brief(tokens=EVERYTHING).to_dict()
    texts = [one["text"] for one in whole["statements"] if one["text"].startswith("Kernels: ")]
    (shares,) = (re.findall(r"([\d.]+) %", text) for text in texts)
    ranked = sorted(times.values(), reverse=True)[:3]
    assert [float(share) for share in shares] == pytest.approx(
        [100 * one / sum(times.values()) for one in ranked], abs=0.06
    )


@pytest.mark.parametrize(
    ("sample", "answer"),
    [
        ("data/paddle/synthetic_rank0.json.gz", "Input-bound: 28.5 %"),
        ("data/mindspore/v200_minddata", "Input-bound"),
        ("data/torch213_cpu/empty.pt.trace.json.gz", "Cannot answer what the host ran"),
        ("data/torch213_cpu/cnn_adam.pt.trace.json.gz", "The optimizer takes 6.4 % of the steps"),
        ("data/torch213_cpu/cnn_adam.pt.trace.json.gz", "Cannot answer what devices did"),
        ("data/megengine/cli.chrome_timeline.json.gz", "Cannot answer how long a step takes"),
        ("data/torch_memory/profile.snapshot.pickle.gz", "Memory: peak 541 KiB"),
        ("shared/hta/nccl_data.json.gz", "Launch-bound"),
        ("shared/hta/amd_trace/mi250_minitoy_train_ROCm6_2_kineto.json.gz", "70.1 %"),
        ("shared/hta/trace_diff/test.json.gz", "Doubt: launch not recorded"),
        ("shared/jax_gpu_rocm/tw003.xplane.pb", "Cannot answer what faster kernels would change"),
    ],
)
def test_a_question_has_its_known_answer(sample: str, answer: str) -> None:
    assert answer in open_sample(sample).brief(tokens=EVERYTHING).text


def test_a_budget_is_kept_and_one_that_is_too_small_is_refused() -> None:
    profile = drawn_profile(gpu=True)
    whole = profile.brief(tokens=EVERYTHING)
    assert whole.text == profile.brief(tokens=EVERYTHING).text
    for budget in (200, 250, 301, 400, 640, 1000):
        one = profile.brief(tokens=budget)
        assert one.tokens <= budget
        check_subset(one, whole)
        assert one.complete or f"p.brief(tokens={2 * budget})" in one.text
    with pytest.raises(OptionError, match=r"30 tokens was asked for.* give tokens=\d+"):
        profile.brief(tokens=30)


def test_tokens_are_bounded_from_above() -> None:
    """Whatever a tokenizer does with bytes, it needs no more than one a byte of what is not ASCII."""
    assert token_bound("µ") == 2
    assert token_bound("一") == 3
    assert token_bound("cudaLaunchKernel") == 4
    assert token_bound("a\nb") == 3


def test_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    path = str(samples.path_of("data/torch213_cpu/cnn_adam.pt.trace.json.gz"))
    assert main(["brief", path, "--tokens", "400"]) == 0
    assert capsys.readouterr().out.rstrip("\n") == open_profile(path).brief(tokens=400).text
    assert main(["brief", path, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == open_profile(path).brief().to_dict()
    assert main(["brief", path, "--tokens", "10"]) == 2
    assert "give tokens=" in capsys.readouterr().err


def test_what_a_notebook_keeps_has_the_brief() -> None:
    profile = drawn_profile()
    assert profile._repr_mimebundle_()[MIME] == profile.brief().to_dict()
