"""Collapsed stacks: what other tools write is told by its content, and what we write comes back."""

from __future__ import annotations

from pathlib import Path

import pytest

from notebook_prof import read_trace
from notebook_prof.errors import FormatError, OptionError
from notebook_prof.trace import Trace


def opened(tmp_path: Path, text: str | bytes, **options: object) -> Trace:
    path = tmp_path / "unknown"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return read_trace(path, **options)


def rows(trace: Trace) -> list[list[object]]:
    return trace.slices[["name", "ts", "dur", "depth"]].astype({"name": str}).to_numpy().tolist()


def test_paths_and_weights_become_slices(tmp_path: Path) -> None:
    trace = opened(tmp_path, "# comment\nmain;step 2\nmain;step;mm (a/ops.py:7) 5\n\nmain 1\nidle 4\n")
    assert trace.metadata["source"] == "collapsed"
    assert rows(trace) == [
        ["main", 0, 8, 0],
        ["step", 0, 7, 1],
        ["mm (a/ops.py:7)", 2, 5, 2],
        ["idle", 8, 4, 0],
    ]
    location = trace.stacks.set_index("name").loc["mm", ["file", "line"]]
    assert location.tolist() == ["a/ops.py", 7]
    assert [issue.code for issue in trace.report] == ["no-time-line"]
    assert trace.report["no-time-line"].effect.startswith("totals are those of the file")


@pytest.mark.parametrize(
    "text",
    [
        # stackcollapse-perf.pl, py-spy record --format raw, async-profiler, Austin
        "python;[libc.so.6];__libc_start_main_[k] 17\nswapper;start_kernel;cpu_idle 1",
        "<module> (train.py:90);fit (lib/model.py:12) 31\n<module> (train.py:90);load data (x.py:3) 2\n",
        "java/lang/Thread.run;Worker::run(int, char*) 12\njava/lang/Thread.run;operator new 3",
        "P1;T0x7f3:1;/a b/c.py:main:4;sleep 100\n",
        "a;b 1.5\r\na;c .25\r\n",
        "функция;шаг 3\n",
    ],
)
def test_other_tools_spellings_are_known(tmp_path: Path, text: str) -> None:
    trace = opened(tmp_path, text)
    assert trace.metadata["source"] == "collapsed"
    assert "broken-row" not in trace.report
    assert len(trace.slices) > 1


def test_samples_get_their_length(tmp_path: Path) -> None:
    trace = opened(tmp_path, "a;b 3\na 1\n", sample_ns=10_000_000)
    assert trace.slices["self_ns"].tolist() == [10_000_000, 30_000_000]
    for wrong in (0, -1, float("nan"), "10ms"):
        with pytest.raises(OptionError, match="sample_ns"):
            opened(tmp_path, "a;b 3\n", sample_ns=wrong)
    with pytest.raises(OptionError, match="fp_point"):
        opened(tmp_path, "a;b 3\n", fp_point="x")


def test_broken_lines_are_counted_and_cost_themselves_only(tmp_path: Path) -> None:
    large = f"a;c {'9' * 30}\n"
    many = "".join(f"a;b{i % 99} {i % 7}\n" for i in range(20_000))
    for text, count, sum_ns, example in (
        (
            many + "no weight\n;x 3\na;b -4\na;b 1e9999\n" + large,
            5,
            sum(i % 7 for i in range(20_000)),
            "no w",
        ),
        ("<module> (a.py:1);f (a.py:2) 5\n 1\n<module> (a.py:1);f (a", 2, 5, " 1"),
        (f"{large}a;c 5\n", 1, 5, "a;c 999"),
    ):
        trace = opened(tmp_path, text)
        assert trace.report["broken-row"].count == count
        assert trace.report["broken-row"].example.startswith(example)
        assert int(trace.slices["self_ns"].sum()) == sum_ns


@pytest.mark.parametrize(
    "text",
    [
        "a 3\nb 4\n",  # a list of numbers, no path
        "0 1 1 0 2060530\n0 2 1 9 2060530\n",
        "for i in x; do\n  y 3\ndone\n",
        '{"a;b": 12,\n"c;d": 13\n',
        "name;count 3\nname;total\n",
        "",
    ],
)
def test_other_text_is_not_taken_for_it(tmp_path: Path, text: str) -> None:
    with pytest.raises(FormatError):
        opened(tmp_path, text)
