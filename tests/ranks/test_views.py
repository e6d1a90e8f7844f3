"""Pictures of many ranks: what is in them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from bokeh.document import Document
from bokeh.models import ColumnDataSource
from bokeh.plotting import figure

import notebook_prof as nbp
from notebook_prof.errors import OptionError
from notebook_prof.session.ranks import Ranks
from notebook_prof.views.ranks import PARTS

from .drawn import write_run


@pytest.fixture
def ranks(tmp_path: Path) -> Ranks:
    return nbp.read_ranks(write_run(tmp_path))


def source(plot: figure) -> ColumnDataSource:
    return plot.select_one({"name": "ranks"}).data_source


def test_bars_reach_the_median_step(ranks: Ranks):
    data = source(ranks.plot.bars()).data
    tops = data[f"{list(PARTS)[-1]}_top"]
    assert tops.tolist() == ranks.breakdown().groupby("rank")["step_ns"].median().tolist()
    assert data["compute_ns_top"].tolist() == [40_000, 40_000, 40_000, 60_000]


def test_heat_has_a_cell_for_each_rank_and_step(ranks: Ranks):
    data = source(ranks.plot.heat("compute_ns")).data
    cells = dict(
        zip(zip(data["rank"].tolist(), data["step"].tolist(), strict=True), data["value"], strict=True)
    )
    assert len(cells) == 12
    assert cells[3, 1] == 60_000
    with pytest.raises(OptionError, match="compute_ns"):
        ranks.plot.heat("compute")


def test_marey_has_a_line_a_step(ranks: Ranks):
    plot = ranks.plot.marey()
    lines = plot.renderers[0].data_source.data
    assert lines["step"] == [0, 1, 2]
    assert np.array(lines["x"]).tolist() == [[0] * 4, [100_000] * 4, [200_000] * 4]


def test_lateness_names_what_came_before(ranks: Ranks):
    data = source(ranks.plot.lateness()).data
    assert data["rank"][0] == "3"
    assert data["before"][0] == "gemm"
    assert data["last"][0] == "100 %"


def test_the_dashboard_is_linked_and_serialises(ranks: Ranks):
    layout = ranks.plot.dashboard()
    linked = [source(plot) for plot in layout.children]
    assert all(one.selected.js_property_callbacks for one in linked)
    assert layout.children[1].y_range is layout.children[2].y_range
    document = Document()
    document.add_root(layout)
    assert document.to_json()


def test_pictures_of_nothing(tmp_path: Path):
    from notebook_prof.testing import draw

    draw("main: [mm ]").to_chrome(tmp_path / "rank0.json")
    ranks = nbp.read_ranks(tmp_path)
    for view in (
        ranks.plot.bars,
        ranks.plot.heat,
        ranks.plot.marey,
        ranks.plot.lateness,
        ranks.plot.dashboard,
    ):
        assert view() is not None
