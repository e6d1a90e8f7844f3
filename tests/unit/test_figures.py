"""Figures of the tabs: what is drawn, compared with the analyses; names stay text; a click selects."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from bokeh.embed import json_item
from bokeh.models import PlainText

from notebook_prof import analysis
from notebook_prof.errors import OptionError
from notebook_prof.profiles.profile import Profile
from notebook_prof.selection import Selection
from notebook_prof.service import palette
from notebook_prof.service.palette import NAMES, name_styles
from notebook_prof.service.store import ViewStore
from notebook_prof.trace import Trace, TraceBuilder
from notebook_prof.views import figures
from notebook_prof.views.figures import Drawn
from notebook_prof.views.tab_models import PLOTS
from notebook_prof.views.tabs import TABS

from ..browser.drawn import drawn_trace

ODD = "<img src=x onerror=alert(1)> $$\\frac{1}{2}$$ @{select}"
BUILDERS = (
    *("distributed", "flame", "idle", "input", "kernels", "layers", "memory_flow"),
    *("operators", "pipeline", "queues", "roofline", "steps"),
)
ALL = Selection()


def _source(drawn: Drawn | None, glyph: int = 0) -> dict[str, Any]:
    assert drawn is not None
    return dict(drawn.figure.renderers[glyph].data_source.data)


def odd_trace() -> Trace:
    """A step with odd names everywhere: operators, kernels, modules, memory."""
    b = TraceBuilder()
    main, stream = b.track(ODD, tid=1), b.track("stream 7", "stream", device=0, stream=7)
    names = ["step", ODD, "aten::mm", "aten::mm"]
    categories = ["module", "module", "operator", "operator"]
    shapes = [None, None, "[[2, 3], [3, 4]]", "[[4, 3], [3, 4]]"]
    more = {"module": ["Net", ODD, ODD, ODD], "phase": "forward", "shapes": shapes, "track": main}
    b.slices(ts=[0, 10, 20, 60], dur=[100, 80, 20, 20], name=names, category=categories, **more)
    b.slices(ts=[30, 90], dur=[20, 20], name=[ODD, "gemm"], category="kernel", track=stream)
    b.steps([0], [0], [100], "mark")
    sizes = {"bytes": [64, 32, -64], "allocated": [64, 96, 32], "reserved": 128, "device": -1, "track": main}
    b.allocations(ts=[25, 30, 70], addr=[2**40, 4096, 2**40], **sizes)
    return b.seal()


@pytest.mark.parametrize("name", BUILDERS)
def test_figures_can_be_embedded_with_odd_names(name: str) -> None:
    for trace in (odd_trace(), drawn_trace(gpu=True)):
        drawn = getattr(figures, f"{name}_figure")(trace, ALL)
        if drawn is None:
            continue
        text = json.dumps(json_item(figures.standalone(drawn)))
        assert "{safe}" not in text
        for axis in drawn.figure.axis:
            assert all(isinstance(label, PlainText) for label in axis.major_label_overrides.values())
        assert isinstance(drawn.figure.title.text, PlainText)
        for renderer in drawn.figure.renderers:
            for patch in renderer.data_source.data.get("select", ()):
                assert not patch or Selection().apply_patch(json.loads(patch))


def test_bars_are_as_long_as_the_table_says() -> None:
    trace = drawn_trace(gpu=True)
    table = analysis.operators(trace).sort_values("self_ns", ascending=False, kind="stable")
    data = _source(figures.operators_figure(trace, ALL, top=3))
    scale = data["length"][0] / table["self_ns"].iloc[0]
    np.testing.assert_allclose(data["length"] / scale, table["self_ns"].head(3))
    assert data["select"][0] == json.dumps({"name": [table["name"].iloc[0]]})
    chosen = _source(figures.operators_figure(trace, Selection(name=table["name"].iloc[1]), top=3))
    assert [value < 1 for value in chosen["alpha"]] == [True, False, True]
    kernels = analysis.kernels(trace, category="kernel")
    data = _source(figures.kernels_figure(trace, ALL))
    np.testing.assert_allclose(
        data["length"] / data["length"][0], kernels["total_ns"] / kernels["total_ns"][0]
    )
    with pytest.raises(OptionError, match="device"):
        figures.operators_figure(trace, ALL, side="devices")


def test_stacked_steps_are_as_high_as_the_steps() -> None:
    trace = drawn_trace(gpu=True)
    drawn = figures.steps_figure(trace, Selection(step=4))
    assert drawn is not None
    table = analysis.step_breakdown(trace)
    top = np.max([renderer.data_source.data["top"] for renderer in drawn.figure.renderers], axis=0)
    np.testing.assert_allclose(top / top[0], table["total_ns"] / table["total_ns"][0])
    data = _source(drawn)
    assert [a == 1 for a in data["alpha"]] == (table["step"] == 4).tolist()
    assert json.loads(data["select"][0]) == {"step": [int(table["step"][0])]}
    three = trace.steps.head(3)
    few = figures.steps_figure(trace, Selection(window=(0, int((three["ts"] + three["dur"]).max()))))
    assert few is not None
    assert few.figure.xaxis[0].ticker.ticks == three["step"].tolist(), "no numbers where no step is"
    with pytest.raises(OptionError, match="step_trace"):
        figures.steps_figure(trace, ALL, kind="trace")


def test_a_name_has_one_label_and_one_colour_in_all_figures() -> None:
    trace = drawn_trace(gpu=True)
    store = ViewStore(trace)
    label = dict(zip(store.columns.names, store.name_styles.labels, strict=True))
    colour = {n: NAMES[c] for n, c in zip(store.columns.names, store.name_styles.codes, strict=True)}
    count = 0
    for figure in (figures.operators_figure, figures.kernels_figure, figures.flame_figure):
        data = _source(figure(trace, ALL))
        names = [json.loads(patch)["name"][0] if patch else None for patch in data["select"]]
        written = data.get("label", data.get("text"))
        for whole, text, painted in zip(names, written, data["colour"], strict=True):
            if whole is not None:
                assert painted == colour[whole]
                assert text in ("", label[whole]) or "…" in text
                count += 1
    assert count > 20
    points = _source(figures.roofline_figure(odd_trace(), ALL), -2)
    assert points["colour"] == [name_styles(odd_trace()).colour("aten::mm")]


def test_status_colours_are_used_for_nothing_else() -> None:
    used = {*NAMES, palette.STEP, palette.COUNTER, palette.MARK, *palette.IDLE}
    for colours in (palette.PHASES, palette.CATEGORIES, palette.RESOURCE, palette.MEMORY):
        used |= set(colours.values())
    assert not used & set(palette.STATUS.values())


def test_idle_bars_sum_to_the_idle_time() -> None:
    trace = drawn_trace(gpu=True)
    drawn = _source(figures.idle_figure(trace, ALL))["length"].sum()
    idle = int(analysis.device(trace)["idle_ns"].sum())
    assert pytest.approx(idle) in (drawn * 1e6, drawn * 1e3), "in ms or µs"


def test_memory_flow_draws_what_memory_blocks_lists() -> None:
    trace = odd_trace()
    blocks = analysis.memory_blocks(trace)
    assert blocks["bytes"].tolist() == [64, 32]
    assert blocks["lifetime_ns"].tolist() == [45, 80]
    data = _source(figures.memory_flow_figure(trace, ALL))
    height = np.asarray(data["top"]) - np.asarray(data["bottom"])
    assert height.tolist() == [64, 32]
    assert sorted(data["bottom"].tolist()) == [0, 32]
    assert json.loads(data["select"][0]) == {"window": [25, 70]}


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("flame", {"metric": "count"}),
        ("roofline", {"flops_per_s": 1e9, "bytes_per_s": 1e9}),
        ("kernels", {"top": 1}),
        ("steps", {"kind": "step_trace"}),
        ("layers", {"depth": 0}),
        ("top", {"by": "module"}),
        ("memory_flow", {"min_bytes": 40}),
    ],
)
def test_plots_take_the_options_of_their_figures(name: str, options: dict[str, Any]) -> None:
    trace = odd_trace()
    p = Profile(trace)
    p.selection.step = 0
    figure = getattr(p.plot, name)(**options)
    assert isinstance(figure.title.text, PlainText)
    builder = getattr(figures, TABS[PLOTS[name]].plots[name])
    assert figure.title.text.text == builder(trace, p.selection, **options).title
