"""The brief: each number in it is a cell of a table that its own calls give."""

import gzip
import json
import pstats
import re
import statistics
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings

from notebook_prof import Profile, Trace, open_profile
from notebook_prof.cli.main import main
from notebook_prof.profiles.brief import Brief
from notebook_prof.testing import draw
from notebook_prof.units import format_ns, format_share
from tests.strategies import traces

from .. import samples
from ..browser.drawn import drawn_profile
from ..browser.drawn_cell import cell_profile
from ..draws import draws

MOST_JSON = 16_384
"""Bytes of the JSON in a notebook's output."""
ROWS = 5


def check_claims(profile: Profile, brief: Brief) -> None:
    """Each number stands where the JSON says, and is what the call, the rows and the column give."""
    content = json.loads(brief.to_json())
    tables: dict[str, pd.DataFrame] = {}
    assert content == brief.to_dict()
    assert len(content["claims"]) == len(profile.verdict.claims)
    for claim in content["claims"]:
        line = content["lines"][claim["line"]]
        assert line[claim["start"] :].startswith(claim["text"])
        value = number(profile, claim, tables)
        if claim["of"] is not None:
            whole = number(profile, claim["of"], tables)
            value = value / whole if whole else 0.0
        if isinstance(claim["value"], str):
            assert value == claim["value"], claim
        else:
            assert float(value) == pytest.approx(claim["value"], rel=1e-9, abs=1e-9), claim
        assert f"`{claim['call']}`" in brief.text
        assert " ".join(claim["text"].split()) in brief.text


def number(profile: Profile, source: dict[str, Any], tables: dict[str, pd.DataFrame]) -> Any:
    """What a claim of the JSON names, looked up by its call; each call is made once."""
    if source["call"] not in tables:
        tables[source["call"]] = eval(source["call"], {"p": profile})
    table = tables[source["call"]]
    for column, value in source["where"].items():
        table = table[[one in (value if isinstance(value, list) else [value]) for one in table[column]]]
    values = table[source["column"]]
    if source["reduce"] == "count":
        return len(values)
    if source["reduce"] == "p90":
        return np.quantile(values.to_numpy(), 0.9, method="inverted_cdf") if len(values) else 0
    if len(values) and isinstance(values.iloc[0], str):
        return values.iloc[0]
    return getattr(values, source["reduce"])() if len(values) else 0


def check_tables(profile: Profile, brief: Brief) -> None:
    """Every cell of the Markdown is the cell of a public table, rounded; what has no rows says so."""
    for name, whole in (("lines", profile.lines()), ("advice", profile.advice()), ("trust", profile.trust)):
        shown = brief.tables[name]
        pd.testing.assert_frame_equal(shown, whole.head(ROWS)[list(shown)])
    rows = [
        [cell.strip() for cell in row.split(" | ")] for row in re.findall(r"^\| (.*) \|$", brief.text, re.M)
    ]
    counted = [len(brief.tables[name]) for name in brief.tables if len(brief.tables[name])]
    assert len(rows) == sum(counted) + 2 * len(counted)
    lines = brief.tables["lines"]
    for row, line, time, share in zip(
        rows[2:], lines["line"], lines["total_ns"], lines["share"], strict=False
    ):
        assert row[0].endswith(f":{line}")
        assert row[-2:] == [format_ns(time), format_share(share)]
    for call in ("p.steps()", "p.lines()", "p.device()", "p.operators()", "p.memory.peak()", "p.cpu()"):
        assert (call in brief.absent) == (not len(eval(call, {"p": profile}))), call


def check_brief(trace: Trace) -> Brief:
    """Check the laws of a recording's brief, and return the brief."""
    profile = Profile(trace)
    brief = profile.brief()
    check_claims(profile, brief)
    check_tables(profile, brief)
    assert len(brief.to_json().encode()) <= MOST_JSON
    return brief


@settings(max_examples=draws(8))
@given(traces())
def test_what_a_brief_says_of_drawn_traces(trace: Trace) -> None:
    assert check_brief(trace).text == Profile(trace).brief().text


def test_a_recorded_cell() -> None:
    """Its lines are said by their number and source."""
    profile = cell_profile()
    check_brief(profile.trace)
    top = profile.lines().iloc[0]
    text = profile.brief(rows=1).text
    assert f"| cell:{top['line']} | `{top['text']}` | {format_ns(top['total_ns'])} |" in text
    assert text.count("| cell:") == 1
    assert "`p.lines()`" not in text.splitlines()[-1]
    check_brief(drawn_profile(gpu=True).trace)


def test_names_of_strangers_are_no_markdown() -> None:
    trace = draw("main: [mm]")
    table = Profile(trace).brief().tables
    lines = pd.DataFrame(
        {"file": ["/a/b.py"], "line": [3], "text": ["x | `y`"], "total_ns": [1], "share": [1.0]}
    )
    names = {"finding": "<b>", "remedy": "__init__\n|*x*", "gain_share": 0.5, "bound": True, "place": ""}
    text = str(Brief(Profile(trace).verdict, {**table, "lines": lines, "advice": pd.DataFrame([names])}, ()))
    assert "| b.py:3 | `` x \\| `y` `` | 1 ns | 100.0 % |" in text
    assert "| \\<b> | \\_\\_init\\_\\_ \\|\\*x\\* | up to 50.0 % |  |" in text


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
    texts = [line for line in profile.brief().to_dict()["lines"] if line.startswith("Kernels: ")]
    (shares,) = (re.findall(r"([\d.]+) %", text) for text in texts)
    ranked = sorted(times.values(), reverse=True)[:3]
    assert [float(share) for share in shares] == pytest.approx(
        [100 * one / sum(times.values()) for one in ranked], abs=0.06
    )


def test_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    path = str(samples.path_of("data/torch213_cpu/cnn_adam.pt.trace.json.gz"))
    assert main(["brief", path, "--rows", "1"]) == 0
    assert capsys.readouterr().out.rstrip("\n") == open_profile(path).brief(rows=1).text
    assert main(["brief", path, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == open_profile(path).brief().to_dict()
