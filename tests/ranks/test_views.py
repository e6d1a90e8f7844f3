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
from notebook_prof.ranks.pictures import PARTS
from notebook_prof.ranks.profiles import Ranks

from .drawn import write_rank, write_run
from .piped import gpipe_length_us, write_gpipe


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


def test_messages_bubbles_and_spread(tmp_path: Path):
    ranks = nbp.read_ranks(write_gpipe(tmp_path, 3, 4))
    links = ranks.plot.matrix().select_one({"name": "links"}).data_source.data
    pairs = list(zip(links["src"].tolist(), links["dst"].tolist(), strict=True))
    assert pairs == [(0, 1), (1, 0), (1, 2), (2, 1)]
    bubbles = ranks.plot.bubbles().select_one({"name": "drain_ns"}).data_source.data
    assert bubbles["bubble"] == bubbles["ideal"] == ["33.3 %"] * 3
    assert bubbles["drain_ns_top"].tolist() == [1000 * gpipe_length_us(3, 4)] * 3
    spread = ranks.plot.spread()
    assert len(spread.select({"name": "bands"})) == ranks.fold().ranks["group"].nunique()


def test_the_outlier_is_a_point_above_its_band(tmp_path: Path):
    for rank in range(8):
        write_rank(tmp_path / f"rank{rank}.json", rank, 8, late_us=30 if rank == 5 else 0)
    ranks = nbp.read_ranks(tmp_path)
    points = ranks.plot.spread().select_one({"name": "outlier"}).data_source.data
    assert set(points["rank"]) == {5}
    assert 70_000 in points["y"]
    label, why, members = ranks.dashboard().groups[-1]
    assert (label, members) == ("1 outlier", [5])
    assert "rank 5: " in why
