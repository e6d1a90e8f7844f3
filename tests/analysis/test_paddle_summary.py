"""p.compat.paddle_summary() has every table, row and number that Paddle printed for its own recordings."""

import gzip
import re
from enum import Enum
from pathlib import Path

import pytest

import notebook_prof as nbp
from notebook_prof import TraceBuilder
from notebook_prof.errors import OptionError
from notebook_prof.formats.paddle.summary import VIEWS
from notebook_prof.formats.paddle.summary_events import TypedEvents
from notebook_prof.formats.paddle.summary_tables import operator_table, user_table
from notebook_prof.testing import draw

OPTIONS = {
    "all_ms_cputotal": {},
    "nodetail_us_cpuavg": {"op_detail": False, "time_unit": "us", "sorted_by": "CPUAvg"},
    "s_gputotal": {"time_unit": "s", "sorted_by": "GPUTotal"},
    "threadsep_ns_cpumax": {"thread_sep": True, "time_unit": "ns", "sorted_by": "CPUMax"},
}


def rows(text: str) -> list[list[str]]:
    """Titles, threads and rows with a number, cell by cell, up to Paddle's FLOPs profiler of live layers."""
    result = []
    for line in text.split("Flops Profiler Begin")[0].splitlines():
        title = line.strip().strip("-")
        if re.fullmatch(r"(\w+ )+Summary( - .*)?|Thread: .*", title):
            if [title] not in result or title.startswith("Thread"):
                result.append([title])
        elif peak := re.fullmatch(r"Peak .*: \d+", line):
            result.append([peak[0]])
        elif re.search(r"  -?\d", line.strip()):
            name, *numbers = re.split(r"\s{2,}", line.strip())
            # names are cut at different lengths
            result.append([name.removesuffix("...")[:38].strip(), *numbers])
    return result


@pytest.mark.parametrize("kind", ["pb", "json"])
@pytest.mark.parametrize("run", ["v262_full", "v331_full", "v262_static", "v331_static", "synthetic_rank0"])
def test_all_views(data: Path, run: str, kind: str) -> None:
    p = nbp.open_profile(data / f"paddle/{run}.{kind}.gz")
    text = gzip.decompress((data / f"paddle/{run}_summary.txt.gz").read_bytes()).decode()
    options = {"sorted_by": "GPUTotal"} if run == "synthetic_rank0" else {}
    assert rows(p.compat.paddle_summary(**options)) == rows(text)


@pytest.mark.parametrize("run", ["full", "v262_full", "v262_sched"])
def test_every_option_and_view(shared_traces: Path, run: str) -> None:
    folder = shared_traces / "paddle" / run
    # of several spans Paddle summed up the last, which has no memory events
    p = nbp.open_profile(max((folder / "pb").glob("*.pb")))
    texts = sorted(folder.glob("summary_*.txt"))
    assert len(texts) == len(OPTIONS) + len(VIEWS)
    for path in texts:
        key = path.stem.removeprefix("summary_")
        options = {"views": key.removeprefix("view_")} if key.startswith("view_") else OPTIONS[key]
        assert rows(p.compat.paddle_summary(**options)) == rows(path.read_text()), path.name


def test_json_differs_in_rounded_nanoseconds_only(shared_traces: Path) -> None:
    folder = shared_traces / "paddle/v262_full"
    p = nbp.open_profile(next(folder.glob("*.json")))
    text = rows((folder / "summary_threadsep_ns_cpumax.txt").read_text())
    ours = rows(p.compat.paddle_summary(**OPTIONS["threadsep_ns_cpumax"]))
    assert len(ours) == len(text)
    assert sum(a != b for a, b in zip(ours, text, strict=True)) < 12


def test_paddles_own_enums_are_taken() -> None:
    sorted_keys = Enum("SortedKeys", "CPUTotal GPUMin")
    summary_view = Enum("SummaryView", "OverView OperatorView")
    p = nbp.Profile(draw("main: [mm][add   ]"))
    text = p.compat.paddle_summary(sorted_by=sorted_keys.GPUMin, views=[summary_view.OperatorView])
    assert text.splitlines()[0].strip("-") == "Operator Summary"
    assert p.compat.paddle_summary(views=summary_view.OverView).startswith("-------")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"sorted_by": "CPUTotl"}, "CPUTotal"),
        ({"views": "KernelVeiw"}, "KernelView"),
        ({"time_unit": "min"}, "choose from s, ms, us, ns|did you mean"),
    ],
)
def test_errors(options: dict[str, str], words: str) -> None:
    with pytest.raises(OptionError, match=words):
        nbp.Profile(TraceBuilder().seal()).compat.paddle_summary(**options)


def test_every_sort_key_and_direction(data: Path) -> None:
    events = TypedEvents(nbp.read_trace(data / "paddle/synthetic_rank0.pb.gz"))
    for side in ("CPU", "GPU"):
        for word in ("Total", "Avg", "Max", "Min"):
            table = operator_table(events, sorted_by=side + word, op_detail=False)
            values = table[f"{side.lower()}_{word.lower()}_ns"].tolist()
            assert values == sorted(values, reverse=word != "Min"), side + word


def test_memory_manipulation_by_name() -> None:
    b = TraceBuilder()
    main = b.track("main")
    names = ["MemcpyAsync", "my_memset", "my_eval"]
    b.slices(ts=[0, 10, 30], dur=[5, 7, 4], name=names, category="annotation", track=main)
    p = nbp.Profile(b.seal())
    text = p.compat.paddle_summary(views="MemoryManipulationView", time_unit="ns")
    assert [row[0] for row in rows(text)[1:]] == ["my_memset", "MemcpyAsync"]  # the last first, as in Paddle
    assert user_table(TypedEvents(p.trace))["name"].tolist() == ["my_eval"]
    assert "16" not in text


def test_other_traces_have_all_tables_too(data: Path) -> None:
    p = nbp.open_profile(data / "torch213_cpu/cnn_adam.pt.trace.json.gz")
    text = p.compat.paddle_summary()
    titles = [row[0] for row in rows(text) if row[0].endswith("Summary")]
    assert titles[:3] == ["Overview Summary", "Model Summary", "Operator Summary"]
    operator = p.operators(name="aten::conv2d").iloc[0]
    row = operator_table(TypedEvents(p.trace), op_detail=False).set_index("name").loc["aten::conv2d"]
    assert (row["calls"], row["cpu_total_ns"]) == (operator["count"], operator["total_ns"])
    steps = p.phases().groupby("phase", observed=True)["host_ns"].sum()
    line = next(line for line in text.splitlines() if line.startswith("  Forward  ") and "/" in line)
    assert f"{steps['forward'] / 1e6:.2f}" in line
