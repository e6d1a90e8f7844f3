"""Growth by step: in resident memory, which is noisy, and under names that change."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from notebook_prof import Trace, TraceBuilder
from notebook_prof.analysis import advice, level_growth, memory_growth, verdict
from notebook_prof.analysis.memory.growth import rising

from ..draws import draws

MB = 2**20


def resident(level: list[int] | np.ndarray, blocks: int = 0, collectors: tuple[str, ...] = ()) -> Trace:  # type: ignore[type-arg]
    """Steps at whose ends resident memory is so high; `blocks` bytes a step stay in the allocator."""
    b = TraceBuilder(metadata={"collectors": list(collectors)})
    n = np.arange(len(level))
    main = b.track("main")
    b.slices(ts=n * 100, dur=np.full(len(n), 80), name="aten::add", track=main)
    b.steps(step=n, ts=n * 100, dur=np.full(len(n), 90), source="loop")
    b.counter(b.track("process RSS", "counter", pid=1, unit="bytes"), n * 100 + 85, level)
    if blocks:
        sizes = {"bytes": blocks, "allocated": blocks * (n + 1), "reserved": 0}
        b.allocations(ts=n * 100 + 10, addr=n + 1, device=-1, track=main, **sizes)
    return b.seal(window=(0, 100 * len(n)))


def test_arrays_that_a_list_collects() -> None:
    noise = np.random.default_rng(3).integers(-40_000, 40_000, 40)
    trace = resident(200 * MB + np.arange(40) * 8 * MB + noise)
    (row,) = memory_growth(trace).to_dict("records")
    assert (row["source"], row["operator"], row["device"], row["of_steps"]) == ("rss", None, -1, 38)
    assert row["bytes_per_step"] == pytest.approx(8 * MB, rel=0.01)
    assert row["steps"] >= 36
    assert "growing 8 MiB every step" in str(verdict(trace))
    table = advice(trace)
    assert "outside the recorded blocks" in table["finding"].str.cat()


def test_torchs_blocks_are_not_reported_twice() -> None:
    level = 200 * MB + np.arange(40) * 3 * MB
    table = memory_growth(resident(level, blocks=3 * MB))
    assert table["source"].tolist() == ["allocator"]
    table = memory_growth(resident(2 * level, blocks=3 * MB))
    assert table[["source", "bytes_per_step"]].values.tolist() == [["allocator", 3 * MB], ["rss", 3 * MB]]


def test_what_the_recording_itself_takes_is_no_leak() -> None:
    level = 200 * MB + np.arange(40) * 40_000
    assert not memory_growth(resident(level)).empty
    b = resident(level, collectors=("torch",))
    assert not memory_growth(b).empty  # one operator a step does not take so much
    many = TraceBuilder(metadata={"collectors": ["torch"]})
    n = np.arange(40)
    many.slices(ts=np.arange(40 * 20) * 5, dur=np.full(800, 4), name="aten::add", track=many.track("main"))
    many.steps(step=n, ts=n * 100, dur=np.full(40, 90), source="loop")
    many.counter(many.track("process RSS", "counter", pid=1, unit="bytes"), n * 100 + 85, level)
    assert memory_growth(many.seal()).empty


@pytest.mark.parametrize(
    "level",
    [
        np.full(40, 200 * MB),
        np.minimum(np.arange(40), 6) * 9 * MB,  # a cache that fills up
        np.arange(40) % 2 * 50 * MB,  # a buffer that comes and goes
        np.where(np.arange(40) < 20, 100 * MB, 300 * MB),  # once
        np.arange(4) * 50 * MB,  # too few to tell
    ],
)
def test_what_is_no_growth(level: np.ndarray) -> None:  # type: ignore[type-arg]
    trace = resident(level)
    assert memory_growth(trace).empty
    assert not level_growth(trace)["grows"].any()


@settings(max_examples=draws(60))
@given(st.integers(0, 2**32 - 1), st.integers(8, 80))
def test_noise_is_rarely_taken_for_growth(seed: int, steps: int) -> None:
    rng = np.random.default_rng(seed)
    assert not rising(rng.integers(100 * MB, 120 * MB, steps)).grows or steps < 8


@settings(max_examples=draws(60))
@given(st.integers(0, 2**32 - 1), st.integers(5, 80), st.integers(64 * 2**10, 64 * MB))
def test_growth_is_found_with_its_slope(seed: int, steps: int, slope: int) -> None:
    noise = np.random.default_rng(seed).integers(-slope // 4, slope // 4 + 1, steps)
    level = 100 * MB + slope * np.arange(steps) + noise
    trend = rising(level)
    assert trend.slope_bytes == pytest.approx(slope, rel=0.15 if steps >= 10 else 0.5)
    # twelve differences tell a trend from chance; less than a mebibyte in all is not worth a word
    assert trend.grows == (steps > 12 and level[-1] - level[0] >= MB)


def test_a_module_of_its_own_in_every_step_is_one() -> None:
    b = TraceBuilder()
    main, n = b.track("main"), np.arange(8)
    modules = [f"Sequential_{2 * i + 1}.2" for i in n]
    b.slices(ts=n * 100, dur=np.full(8, 50), name="aten::addmm", module=modules, track=main)
    b.slices(ts=n * 100 + 60, dur=np.full(8, 20), name="aten::relu", module="Linear_1", track=main)
    b.steps(step=n, ts=n * 100, dur=np.full(8, 90), source="loop")
    ts = np.sort(np.concatenate([n * 100 + 10, n * 100 + 65]))
    size = np.tile([262_144, 64], 8)
    level = np.cumsum(size)
    b.allocations(
        ts=ts, addr=np.arange(16) + 1, bytes=size, device=-1, allocated=level, reserved=0, track=main
    )
    table = memory_growth(b.seal())
    assert table[["operator", "module", "steps", "bytes_per_step", "kept_bytes"]].values.tolist() == [
        ["aten::addmm", "Sequential.2", 6, 262_144, 8 * 262_144],
        ["aten::relu", "Linear_1", 6, 64, 8 * 64],
    ]


def test_the_leak_of_a_sliced_sequential() -> None:
    torch = pytest.importorskip("torch")
    import notebook_prof as nbp

    model = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 128))
    kept = []
    with nbp.profile("torch") as p:
        for _ in nbp.steps(range(12)):
            kept.append(model[:3](torch.ones(32, 64)))
    table = p.memory.growth().set_index("operator")
    row = table.loc["aten::addmm"]
    row = row if row.ndim == 1 else row.sort_values("bytes_per_step").iloc[-1]
    assert row["bytes_per_step"] >= 32 * 128 * 4
    assert row["of_steps"] == 10
    assert row["steps"] >= 9
    assert row["kept_bytes"] >= 10 * 32 * 128 * 4


def test_a_queue_of_batches_that_fills_up_is_no_leak() -> None:
    """The lowest level of each step is higher than before, but every block is freed in the end."""
    b, n = TraceBuilder(), np.arange(8)
    main = b.track("main")
    b.slices(ts=n * 100, dur=np.full(8, 50), name="aten::add", track=main)
    b.steps(step=n, ts=n * 100, dur=np.full(8, 90), source="loop")
    sizes = np.append(np.full(8, MB), np.full(8, -MB))
    ts = np.append(n * 100 + 10, 791 + n)
    row = {"bytes": sizes, "allocated": np.cumsum(sizes), "reserved": 0}
    b.allocations(ts=ts, addr=np.append(n, n) + 1, device=-1, track=main, **row)
    trace = b.seal()
    assert level_growth(trace)["grows"].all()
    assert memory_growth(trace).empty
    assert "growing" not in str(verdict(trace))


@pytest.mark.parametrize(("growth", "significant"), [(8, False), (4096, True)])
def test_growth_is_reported_where_it_matters(growth: int, significant: bool) -> None:
    """Eight bytes a step beside a peak of 16 MB are true, and not worth a word."""
    builder, n = TraceBuilder(), np.arange(20)
    main = builder.track("main")
    builder.slices(ts=n * 10, dur=np.full(20, 8), name="cat", track=main, category="operator")
    builder.steps(step=n, ts=n * 10, dur=np.full(20, 10), source="loop")
    peak = np.where(n == 3, 4_000_000, 0)
    builder.allocations(
        ts=n * 10 + 2, addr=n + 1, device=0, track=main, bytes=growth, allocated=growth * n, reserved=peak
    )
    size = np.array([4_000_000, -4_000_000])
    row = {"bytes": size, "allocated": np.array([4_000_000, 0]) + 3 * growth, "reserved": 4_000_000}
    builder.allocations(ts=[31, 32], addr=[99, 99], device=0, track=main, **row)
    trace = builder.seal()
    assert level_growth(trace)["grows"].tolist() == [True]
    assert ("every step" in str(verdict(trace))) == significant
    assert ("memory-growth" in advice(trace)["rule"].tolist()) == significant
