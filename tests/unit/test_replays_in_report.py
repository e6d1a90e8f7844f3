"""Replays that lie in a report: which are there, that they are the kernel's, and what is said of others."""

from __future__ import annotations

import base64
import json
import re
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import notebook_prof as nbp
from notebook_prof import analysis
from notebook_prof.readers import read_trace
from notebook_prof.service.answers.what_if import what_if_content
from notebook_prof.testing import draw
from notebook_prof.trace import Trace, TraceBuilder
from notebook_prof.views.report import replays as module
from notebook_prof.views.report.replays import FACTORS, MOST_TARGETS, longest, replays, target_key

ACQUIRE = "<built-in method take of Queue object at 0x7f{:02x}>"


@pytest.fixture(scope="module")
def recorded(data: Path) -> Trace:
    return read_trace(data / "torch213_cpu/cnn_adam.pt.trace.json.gz")


def answers_of(packed: dict[str, Any]) -> Any:
    return json.loads(zlib.decompress(base64.b64decode(packed["answers"])))


def test_what_takes_longest_can_be_asked(recorded: Trace) -> None:
    packed = replays(recorded)
    answers = answers_of(packed)
    table = analysis.operators(recorded, waits=False)
    table = table[~table["name"].str.startswith("ProfilerStep")]
    assert list(answers["name"]) == table["name"].head(MOST_TARGETS["name"]).tolist()
    assert packed["factors"] == list(FACTORS)
    counted = " and ".join(
        f"the {len(answers[dimension])} {dimension}s" for dimension in ("name", "phase") if answers[dimension]
    )
    assert packed["left"].startswith(f"This file holds replays of {counted} that take longest")


def test_each_answer_is_that_of_python(recorded: Trace) -> None:
    for dimension, targets in answers_of(replays(recorded)).items():
        for key, answers in targets.items():
            assert answers == [what_if_content(recorded, {dimension: [key]}, factor) for factor in FACTORS]
            assert all(answer["found"] for answer in answers)


def test_the_longest_own_the_most_time() -> None:
    trace = draw("main: [mm   ][relu][add]\nother: [add  ]")
    own = trace.slices.groupby("name", observed=True)["self_ns"].sum().sort_values(ascending=False)
    assert [values[0] for values in longest(trace, "name", 3)] == own.index.tolist()
    assert longest(trace, "name", 1) == [[own.index[0]]]
    assert longest(trace, "phase", 3) == []


def test_names_that_tables_count_as_one_are_asked_together() -> None:
    builder = TraceBuilder()
    names = [*map(ACQUIRE.format, range(3)), "ProfilerStep#0", "sleep", "mm"]
    ts = np.array([0, 2, 4, 10, 200, 300])
    builder.slices(ts=ts, dur=[2, 2, 2, 100, 90, 5], name=names, track=builder.track("main"))
    trace = builder.seal()
    assert longest(trace, "name", 9) == [sorted(names[:3]), ["mm"]]
    assert target_key(names[2::-1]) == "\n".join(names[:3])
    merged = analysis.operators(trace)["name"].iloc[-2]
    assert str(analysis.what_if(trace, scale={merged: 0.5})).startswith(f"What if {merged} × 0.5: ")
    assert (
        analysis.what_if(trace, scale={merged: 0.5}).gain
        == analysis.what_if(trace, scale=dict.fromkeys(names[:3], 0.5)).gain
    )


def test_too_many_slices_are_not_replayed(recorded: Trace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_SLICES", len(recorded.slices) - 1)
    packed = replays(recorded)
    assert (packed["factors"], packed["answers"]) == ([], "")
    assert packed["left"].startswith(f"Replays of more than {len(recorded.slices) - 1:,} slices are not in")


def test_a_failure_costs_the_replays_and_not_the_file(
    recorded: Trace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError("nothing to divide")

    monkeypatch.setattr(module, "what_if_content", fail)
    nbp.Profile(recorded).export.html(tmp_path / "report.html")
    (text,) = re.findall(r'id="nbp-panels">(.*?)</script>', (tmp_path / "report.html").read_text())
    packed = json.loads(text)["replays"]
    assert packed["factors"] == []
    assert packed["left"].startswith("Replays could not be worked out (ZeroDivisionError: nothing to divide)")


def test_a_trace_without_replays_says_so() -> None:
    builder = TraceBuilder()
    builder.slices(ts=[0], dur=[0], name="instant", track=builder.track("main"))
    assert replays(builder.seal())["left"].startswith("This file holds no replays: ")
