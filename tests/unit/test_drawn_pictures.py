"""PNG and SVG of the views, without a browser."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from notebook_prof.labels import family, family_code
from notebook_prof.selection import Selection
from notebook_prof.service.palette import MEMORY, NAMES, PHASES, rgb
from notebook_prof.trace import Trace, TraceBuilder
from notebook_prof.views.pictures import CHOICES, scene, write_png, write_svg
from notebook_prof.views.pictures.scene import Label, Polyline

from ..browser.drawn import drawn_trace

EMPTY = TraceBuilder().seal()


def _colours(path: Path) -> set[tuple[int, ...]]:
    image = Image.open(path).convert("RGB")
    return {colour for _, colour in image.getcolors(image.width * image.height)}


@pytest.fixture(scope="module")
def trace() -> Trace:
    return drawn_trace(gpu=True)


@pytest.mark.parametrize("view", CHOICES)
def test_every_view_is_a_picture(trace: Trace, view: str, tmp_path: Path) -> None:
    write_png(scene(trace, Selection(), view), tmp_path / "view.png")
    image = Image.open(tmp_path / "view.png")
    assert image.size[0] == 2000
    longest = trace.slices.groupby("name", observed=True)["self_ns"].sum().idxmax()
    colour = NAMES[family_code(family(str(longest))) % (len(NAMES) - 1)]
    colour_of = {"timeline": colour, "operators": colour, "memory": MEMORY["allocated"]}
    colour_of |= {"phases": PHASES["backward"], "all": PHASES["forward"]}
    assert rgb(colour_of[view]) in _colours(tmp_path / "view.png")
    write_svg(scene(trace, Selection(), view), tmp_path / "view.svg")
    assert ET.parse(tmp_path / "view.svg").getroot().tag.endswith("svg")


def test_pictures_show_the_selection(trace: Trace) -> None:
    whole = scene(trace, Selection(), "timeline").svg()
    part = scene(trace, Selection(window=(31_000_000, 60_000_000)), "timeline").svg()
    assert "200 ms" in whole
    assert "200 ms" not in part
    assert "40 ms" in part
    dimmed = scene(trace, Selection(name="aten::relu"), "timeline").svg()
    assert dimmed.count("#DDDDDD") > whole.count("#DDDDDD")
    assert "Tensor.backward" not in scene(trace, Selection(phase="forward"), "operators").svg()


def test_names_of_strangers_are_text(tmp_path: Path) -> None:
    evil = "<script>alert(1)</script>&\x00\u202e\n"
    builder = TraceBuilder()
    builder.slices(ts=[0], dur=[10**6], name=[evil], track=builder.track(evil))
    trace = builder.seal()
    write_svg(scene(trace, Selection()), tmp_path / "evil.svg")
    root = ET.parse(tmp_path / "evil.svg").getroot()
    assert not [part for part in root.iter() if part.tag.endswith("script")]
    write_png(scene(trace, Selection()), tmp_path / "evil.png")


@pytest.mark.parametrize("view", CHOICES)
def test_nothing_is_a_picture_too(view: str, tmp_path: Path) -> None:
    write_png(scene(EMPTY, Selection(), view), tmp_path / "nothing.png")
    wide, high = Image.open(tmp_path / "nothing.png").size
    assert wide == 2000
    assert 40 < high < 300, "a line for each view, not a page of white"
    texts = [part.text for part in scene(EMPTY, Selection(), view).parts if isinstance(part, Label)]
    assert all(text.startswith(("no ", "nothing ")) for text in texts)


def test_a_picture_says_how_many_rows_it_leaves_out() -> None:
    builder = TraceBuilder()
    for k in range(130):
        builder.slices(ts=[0], dur=[9], name="mm", track=builder.track(f"worker {k}", pid=1, tid=k + 1))
    drawn = scene(builder.seal(), Selection(), "timeline")
    assert "the first 120 of 130 rows are drawn" in [p.text for p in drawn.parts if isinstance(p, Label)]


@pytest.mark.parametrize("view", CHOICES)
def test_dark_pictures_have_light_texts_and_the_same_data(trace: Trace, view: str, tmp_path: Path) -> None:
    selection = Selection(name="aten::add_")
    light, dark = (scene(trace, selection, view, theme=theme) for theme in ("light", "dark"))
    assert len(light.parts) == len(dark.parts)
    data = {rgb(colour) for colour in (*NAMES, *PHASES.values(), *MEMORY.values())}
    for before, after in zip(light.parts, dark.parts, strict=True):
        assert isinstance(before, Polyline) or before._replace(colour=after.colour) == after
        if rgb(before.colour) in data:
            assert after.colour == before.colour
    write_png(scene(trace, selection, view, theme="dark"), tmp_path / "dark.png")
    image = np.asarray(Image.open(tmp_path / "dark.png"))
    assert tuple(image[0, 0]) == (17, 17, 17)
    assert image.mean() < 128
    write_svg(scene(trace, selection, view, theme="dark"), tmp_path / "dark.svg")
    assert 'fill="#111111"' in (tmp_path / "dark.svg").read_text()


def test_very_long_names_stay_in_their_room() -> None:
    builder = TraceBuilder()
    builder.slices(ts=[0], dur=[10**6], name="kernel<" * 300, track=builder.track("thread " * 99))
    drawn = scene(builder.seal(), Selection(), width=480)
    for part in drawn.parts:
        if isinstance(part, Label):
            wide = 6 * len(part.text)
            left = part.x - {"start": 0, "middle": wide / 2, "end": wide}[part.anchor]
            assert left >= 0
            assert left + wide <= 480, part
