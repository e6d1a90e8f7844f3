"""phases and steps on drawn traces."""

from notebook_prof import TraceBuilder
from notebook_prof.analysis import phases, steps
from notebook_prof.analysis.time.phases import stepping_track
from notebook_prof.testing import draw
from notebook_prof.trace import PHASES


def host(trace, step, **options):
    table = phases(trace, **options)
    table = table[table["step"] == step]
    return {name: ns for name, ns in zip(table["phase"], table["host_ns"], strict=True) if ns}


def test_device_time_belongs_to_the_step_and_phase_that_launched_it():
    trace = draw(
        """
        steps:     [0          ][1              ]
        main:      [mm/forward]     [sgd/optimizer]
        stream 7:         [gemm          ][adam]
        stream 8:           [other]
        """,
        launches=[("mm", "gemm"), ("mm", "other"), ("sgd", "adam")],
    )
    table = phases(trace).set_index(["step", "phase"])["device_ns"]
    assert table[0, "forward"] == 16
    assert table[1, "optimizer"] == 6
    assert table.sum() == 22


def test_steps_tell_how_busy_host_and_device_were():
    trace = draw(
        """
        steps:    [0            ][1       ]
        main:     [mm  ]  [add ]
        other:         [noise ]
        stream 7:     [gemm                ]
        """
    )
    table = steps(trace)
    assert table["host_busy_ns"].tolist() == [12, 0]
    assert table["device_busy_ns"].tolist() == [11, 10]
    assert table["slices"].tolist() == [4, 0]
    assert table["dur"].tolist() == [15, 10]


def test_a_thread_that_only_waits_does_not_run_the_steps() -> None:
    """Where Python has no phases: the thread that was recorded, not one that reads a pipe."""
    builder = TraceBuilder(metadata={"source": "recording"})
    other, main = builder.track("thread 7", pid=1, tid=7), builder.track("MainThread", pid=1, tid=1)
    for track, name in ((other, "Popen.read"), (main, "body")):
        builder.slices(ts=0, dur=1_000, name=name, category="python", track=track)
    builder.steps([0, 1], [0, 500], [500, 500], "mark")
    assert stepping_track(builder.seal()) == main


def test_without_steps_or_slices_there_is_nothing_to_divide():
    trace = draw("main: [mm/forward]")
    assert phases(trace).empty
    assert list(phases(trace)) == ["step", "phase", "host_ns", "device_ns", "share"]
    assert steps(trace).empty
    assert phases(TraceBuilder().seal()).empty
    b = TraceBuilder()
    b.steps([0, 1], [0, 10], [10, 10], "mark")
    table = phases(b.seal())
    assert table["phase"].tolist() == list(PHASES) * 2
    assert table.loc[table["phase"] == "other", "host_ns"].tolist() == [10, 10]


def test_a_closure_of_the_optimizer_is_forward_and_backward():
    trace = draw(
        """
        steps: [0                                                          ]
        main:  [Optimizer.step#LBFGS.step/optimizer                        ]
        main:    [mm/forward] [add/forward]  [node/backward] [sgd/optimizer]
        """
    )
    phase_ns = host(trace, 0)
    assert phase_ns["forward"] == 12 + 1 + 13
    assert phase_ns["backward"] == 15
    assert phase_ns["optimizer"] == len("[sgd/optimizer]")


def gap_of(length, python=()):
    """Host times of two forward pieces of 1 ms with a gap of `length` ns between them."""
    b = TraceBuilder()
    main, ms = b.track("main"), 1_000_000
    b.slices(ts=[0, ms + length], dur=[ms, ms], track=main, name=["mm", "add"], phase="forward")
    for begin, dur in python:
        b.slices(ts=ms + begin, dur=dur, track=main, name="env.step (cell)", category="python")
    b.steps(step=0, ts=0, dur=2 * ms + length, source="loop")
    return host(b.seal(), 0)


def test_a_long_gap_is_not_filled():
    ms = 1_000_000
    assert "other" not in gap_of(190_000)
    assert "other" not in gap_of(190_000, [(1000, 180_000)])
    assert "other" not in gap_of(900_000)
    assert gap_of(900_000, [(10_000, 800_000)]) == {"forward": 2 * ms, "other": 900_000}
    assert "other" not in gap_of(900_000, [(10_000, 200_000)])
    assert gap_of(2 * ms) == {"forward": 2 * ms, "other": 2 * ms}


def test_updates_are_steps_of_optimizers():
    b = TraceBuilder()
    main = b.track("main")
    names = ["Optimizer.zero_grad#SGD.zero_grad", *["Optimizer.step#SGD.step"] * 4]
    b.slices(ts=[5, 12, 13, 25, 28], dur=[2, 4, 2, 1, 1], track=main, name=names)
    b.steps(step=[0, 1, 2], ts=[0, 10, 20], dur=[10, 10, 10], source="loop", loop=[0, 0, 1])
    table = steps(b.seal())
    assert (table["updates"].tolist(), table["loop"].tolist()) == ([0, 1, 2], [0, 0, 1])
