"""Answers, filters, pictures and static HTML, without a browser."""

from __future__ import annotations

import base64
import io
import json
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from typing import Any, get_args

import numpy as np
import pytest
from PIL import Image

from notebook_prof.analysis import kernels, operators
from notebook_prof.selection import Selection
from notebook_prof.service.palette import CATEGORIES, NAMES, PHASES, rgb
from notebook_prof.service.store import ViewStore
from notebook_prof.testing import draw
from notebook_prof.trace import Trace, TraceBuilder
from notebook_prof.units import format_bytes
from notebook_prof.views import bundle
from notebook_prof.views.dashboard import TEMPLATE, dashboard_document
from notebook_prof.views.page_queries import PageQueries
from notebook_prof.views.pictures.images import pixels, png
from notebook_prof.views.pictures.views import timeline
from notebook_prof.views.report.static_html import fragment, write_report

from ..asking import asked
from ..browser.drawn import drawn_trace
from ..generated import drawn
from ..new_process import run_python

EMPTY = TraceBuilder().seal()


def _ask(protocol: PageQueries, **request: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    content, columns = asked(protocol, **request)
    json.dumps(content)
    assert sum(column.nbytes for column in columns.values()) < 1_000_000
    return content, columns


@pytest.fixture
def protocol() -> PageQueries:
    return PageQueries(drawn_trace(gpu=True), Selection())


def _wide_trace(rows: int = 300, each: int = 400) -> Trace:
    builder = TraceBuilder()
    ts, dur = np.arange(each) * 1000, np.full(each, 900)
    for k in range(rows):
        builder.slices(ts=ts, dur=dur, name=f"name {k}", track=builder.track(f"t{k}", tid=k, pid=1))
    return builder.seal()


def test_meta_lists_tracks_in_drawing_order(protocol: PageQueries) -> None:
    content, columns = _ask(protocol, t="meta")
    assert [track["name"] for track in content["tracks"]] == ["stream 7", "MainThread", "autograd thread 0"]
    assert [track["label"] for track in content["tracks"]] == ["stream 7", "main", "autograd thread 0"]
    assert [track["row"] for track in content["tracks"]] == [0, 1, 4]
    assert [track["group"] for track in content["tracks"]] == ["GPU 0", "process 100", "process 100"]
    assert columns["step"].tolist() == list(range(3, 13))
    assert content["groupings"] == ["name", "module", "category"]


def test_timeline_gives_every_slice_or_accounts_for_it(protocol: PageQueries) -> None:
    n = len(protocol.store.trace.slices)
    end = float(protocol.store.trace.span.end)
    rows = list(range(protocol.store.columns.n_rows))
    content, data = _ask(protocol, t="timeline", a=0, b=end, px=1000, rows=rows)
    assert (content["mode"], content["total"], len(data["id"])) == ("all", n, n)
    content, data = _ask(protocol, t="timeline", a=0, b=end, px=1000, rows=rows, max_quads=20)
    assert (content["mode"], len(data["id"])) == ("dense", 20)
    assert len(data["busy"]) == content["bins"] * len(rows)
    assert ((data["busy"] > 0) == (data["count"] > 0)).all()
    assert data["count"].sum() >= n


def test_timeline_tells_which_slices_a_search_matches(protocol: PageQueries) -> None:
    question = {"t": "timeline", "a": 0, "b": 1e9, "px": 500, "rows": list(range(6))}
    for text in ("conv", "self>1ms"):
        _, data = _ask(protocol, **question, find=text)
        slices = protocol.store.trace.slices.iloc[data["id"]]
        if text == "conv":
            assert (data["found"] == slices["name"].astype(str).str.contains("conv", case=False)).all()
        else:
            assert (data["found"] == (slices["self_ns"] > 1e6)).all()
        assert 0 < data["found"].sum() < len(slices)
    assert "found" not in _ask(protocol, **question, find="no such name")[1]
    assert "found" not in _ask(protocol, **question, find="count>")[1]


def test_no_answer_exceeds_its_bounds() -> None:
    protocol = PageQueries(_wide_trace(), Selection())
    content, data = _ask(protocol, t="timeline", a=0, b=4e5, px=8000, rows=list(range(300)))
    assert len(data["id"]) <= 4000
    assert content["bins"] * 128 <= 65_536
    content, _ = _ask(protocol, t="table", top=10_000)
    assert len(content["label"]) == 300
    assert _ask(protocol, t="table", top=7)[0]["rows"] == 300


def test_selection_dims_filters_and_adds_up(protocol: PageQueries) -> None:
    selection = protocol.selection
    all_rows, data = _ask(protocol, t="table")
    own = dict(zip(all_rows["label"], data["self_ns"], strict=True))
    slices = protocol.store.trace.slices
    assert sum(own.values()) == slices["self_ns"].sum()
    selection.update(name="aten::conv2d", step=[4, 5])
    picture, quads = _ask(protocol, t="timeline", a=0, b=1e9, px=500, rows=list(range(6)))
    assert picture["filtered"]
    assert quads["match"].sum() == selection.mask(slices).sum()
    content, data = _ask(protocol, t="table")
    own = operators(protocol.store.trace, step=[4, 5])["count"].sum()
    own += kernels(protocol.store.trace, step=[4, 5])["count"].sum()
    assert sum(data["count"]) == own, "its own dimension does not filter the table"
    assert content["count"] == selection.mask(slices).sum(), "but the totals are of what is selected"
    content, data = _ask(protocol, t="phases")
    assert content["filtered"]
    assert data["part"].sum() > 0
    assert (data["part"] <= data["total"]).all()
    content, data = _ask(protocol, t="memory", a=0, b=1e9)
    assert 0 < data["sy"].max() < data["y"].max()
    assert data["sy"][-1] == 0, "everything that was allocated is freed"


def test_detail_tells_everything_and_links(protocol: PageQueries) -> None:
    src = int(protocol.store.trace.flows["src"].iloc[0])
    content, _ = _ask(protocol, t="detail", id=src)
    assert content["found"]
    assert content["links"][0]["kind"] == "launch"
    assert content["links"][0]["direction"] == "to"
    assert content["phase"] == "forward"
    assert _ask(protocol, t="detail", id=10**9)[0]["found"] is False


def _luminance(colour: str) -> float:
    parts = [c / 255 for c in rgb(colour)]
    linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("colour", sorted({*NAMES, *PHASES.values(), *CATEGORIES.values()}))
def test_labels_can_be_read_on_every_colour(colour: str) -> None:
    assert (_luminance(colour) + 0.05) / (_luminance("#1a1a1a") + 0.05) >= 4.5


def test_picture_is_a_png_of_every_row() -> None:
    image = pixels(timeline(ViewStore(drawn_trace(gpu=True)), Selection(), 640), 1)
    assert image.shape == (34 + 6 * 16, 640, 3)
    decoded = np.asarray(Image.open(io.BytesIO(png(image))))
    np.testing.assert_array_equal(decoded, image)
    assert len(np.unique(image.reshape(-1, 3), axis=0)) > 8


class _Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        assert not any(name.startswith("on") for name, _ in attrs)

    def handle_data(self, data: str) -> None:
        self.text += data


def test_fragment_survives_untrusted_notebooks_and_names() -> None:
    evil = "<script>alert(1)</script><img onerror=alert(1)>"
    builder = TraceBuilder()
    builder.slices(ts=[0], dur=[10], name=[evil], track=builder.track(evil))
    html = fragment(builder.seal(), Selection(), verdict=evil + "\nline two", uid='"><b>')
    parsed = _Tags()
    parsed.feed(html)
    known = {*("div", "p", "b", "br", "img", "table"), *("tr", "th", "td", "span", "style", "code")}
    assert set(parsed.tags) <= known
    assert parsed.tags.count("style") == 1, "our own rule, which sanitizers may take away"
    assert parsed.text.count(evil) == 2, "in the verdict and the table; the track is in the picture"
    assert "data:image/png;base64," in html
    told = re.findall(r"<p>This output adds (.+?) to the notebook file.</p>", html)
    assert told == [format_bytes(len(html[: html.index("<p>This output")].encode()))]


def test_fragment_has_a_picture_of_what_was_recorded_of_the_four_views() -> None:
    html = fragment(drawn_trace(), Selection())
    pictures = re.findall(r'<img alt="([^":]+)[^"]*" src="data:image/png;base64,([^"]+)"', html)
    assert [name for name, _ in pictures] == ["timeline", "memory over time", "phases of the steps"]
    for _, encoded in pictures:
        with Image.open(io.BytesIO(base64.b64decode(encoded))) as image:
            assert image.width == 1000
            assert len(image.convert("RGB").getcolors(1 << 16) or ()) > 8
    alone = fragment(draw("main: [mm ]"), Selection())
    assert re.findall(r'<img alt="([^":]+)', alone) == ["timeline"]


def test_fragment_of_nothing_and_report_of_a_selection(tmp_path: Any) -> None:
    assert "Nothing was recorded" in fragment(EMPTY, Selection())
    write_report(drawn_trace(), Selection(step=4), tmp_path / "r.html", verdict="fine")
    text = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert "Content-Security-Policy" in text
    assert '"step":[4]' in text
    ours = text.replace(bundle.bokehjs()[0].decode(), "")
    for elsewhere in ("http:", "https:", "@import"):
        assert elsewhere not in ours
    assert len(text) < 2_000_000


def test_the_figures_in_the_file_are_those_that_are_drawn() -> None:
    """Where this fails, figures have changed: run ``python -m tests.generated``."""
    assert json.loads(TEMPLATE.read_text()) == json.loads(drawn())
    trace = drawn_trace()
    spans = {
        name: (float(start), float(end))
        for name, start, end in _ranges(json.loads(dashboard_document(trace))["roots"])
        if name in ("view", "whole")
    }
    assert spans == dict.fromkeys(("view", "whole"), (trace.span.start, trace.span.end))


def _ranges(part: Any) -> Iterator[tuple[str, float, float]]:
    if isinstance(part, dict):
        if part.get("name") == "Range1d":
            attributes = part["attributes"]
            yield attributes["name"], attributes.get("start", 0), attributes.get("end", 1)
        part = list(part.values())
    if isinstance(part, list):
        for each in part:
            yield from _ranges(each)


def test_the_first_view_needs_no_models_of_bokeh() -> None:
    code = """
import sys
from notebook_prof.profiles.profile import Profile
from notebook_prof.jupyter import display
from notebook_prof.jupyter.widget import ProfileWidget, queries_of
from notebook_prof.testing import draw
profile = Profile(draw("main: [mm]"))
ProfileWidget(profile)._start()
display.static_form(profile, "uid")
for question in ("meta", "names", "timeline", "strip", "memory", "phases", "table"):
    content, _ = queries_of(profile).answer({"t": question, "a": 0, "b": 1, "px": 9, "rows": [0]})
    assert "failed" not in content, content
print("bokeh.models" in sys.modules, "bokeh.plotting" in sys.modules)
"""
    assert run_python(code).stdout.split() == ["False", "False"]


def test_page_code_is_whole() -> None:
    for entry in get_args(bundle.Entry):
        code = bundle.script(entry)
        assert ("as default}" in code) == entry.endswith("_widget"), "anywidget loads a module with an export"
        assert not re.search(r"\bimport\b", code), "one file needs no other"
        for danger in ("innerHTML", "eval(", "new Function", "insertAdjacentHTML", "document.write"):
            assert danger not in code
    assert len(bundle.bokehjs()) == 1


def test_tables_page_through_all_rows(protocol: PageQueries) -> None:
    whole = _ask(protocol, t="table", top=1000)[0]["label"]
    pages = [_ask(protocol, t="table", start=start, top=5)[0] for start in range(0, len(whole), 5)]
    assert [label for page in pages for label in page["label"]] == whole
    assert {page["rows"] for page in pages} == {len(whole)}


def test_long_names_are_whole_so_that_a_click_selects_them() -> None:
    name = "void kernel<" + "at::native::Functor, " * 300 + ">"
    builder = TraceBuilder()
    builder.slices(ts=[0, 9], dur=[5, 5], name=[name + "a", name + "b"], track=builder.track("main"))
    protocol = PageQueries(builder.seal(), Selection())
    assert _ask(protocol, t="names", start=0)[0]["names"] == [name + "a", name + "b"]
    label = _ask(protocol, t="table")[0]["label"][0]
    protocol.select({"name": [label]}, "table", 0)
    assert _ask(protocol, t="timeline", a=0, b=20, px=100, rows=[0])[1]["match"].sum() == 1
