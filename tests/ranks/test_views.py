"""Pictures of many ranks: what is in them."""

from __future__ import annotations

from pathlib import Path

import pytest
from bokeh.models import ColumnDataSource
from bokeh.plotting import figure

import notebook_prof as nbp
from notebook_prof.errors import OptionError
from notebook_prof.ranks.page.frames import PARTS
from notebook_prof.ranks.profiles import Ranks

from .drawn import write_rank, write_run
from .piped import gpipe_length_us, write_gpipe


@pytest.fixture
def ranks(tmp_path: Path) -> Ranks:
    return nbp.read_ranks(write_run(tmp_path))


def source(plot: figure) -> ColumnDataSource:
    return plot.select_one({"name": f"{plot.name}_data"})


def test_bars_reach_the_median_step(ranks: Ranks):
    data = source(ranks.plot.bars()).data
    tops = data[f"{list(PARTS)[-1]}_top"]
    assert tops == ranks.breakdown().groupby("rank")["step_ns"].median().tolist()
    assert data["compute_ns_top"] == [40_000, 40_000, 40_000, 60_000]


def test_heat_has_a_cell_for_each_rank_and_step(ranks: Ranks):
    data = source(ranks.plot.heat("compute_ns")).data
    cells = dict(zip(zip(data["rank"], data["x"], strict=True), data["value"], strict=True))
    assert len(cells) == 12
    assert cells[3, 1] == 60_000
    assert "rank 3, step 1\n60 µs" in data["tip"]
    with pytest.raises(OptionError, match="compute_ns"):
        ranks.plot.heat("compute")


def test_marey_has_a_line_a_step(ranks: Ranks):
    plot = ranks.plot.marey()
    lines = plot.select_one({"name": "marey_lines"}).data
    assert lines["xs"] == [[0] * 4, [100_000] * 4, [200_000] * 4]


def test_lateness_names_what_came_before(ranks: Ranks):
    data = source(ranks.plot.lateness()).data
    assert data["rank"][0] == 3
    assert data["tip"][0].endswith("arrives last in 100.0 %\nbefore that: gemm")


def test_pictures_of_nothing(tmp_path: Path):
    from notebook_prof.testing import draw

    draw("main: [mm ]").to_chrome(tmp_path / "rank0.json")
    ranks = nbp.read_ranks(tmp_path)
    for view in (
        ranks.plot.bars,
        ranks.plot.heat,
        ranks.plot.marey,
        ranks.plot.lateness,
    ):
        assert view() is not None


def test_messages_bubbles_and_spread(tmp_path: Path):
    ranks = nbp.read_ranks(write_gpipe(tmp_path, 3, 4))
    links = source(ranks.plot.matrix()).data
    pairs = list(zip(links["y"], links["x"], strict=True))
    assert pairs == [(0, 1), (1, 0), (1, 2), (2, 1)]
    bubbles = source(ranks.plot.bubbles()).data
    assert bubbles["drain_ns_top"] == [1000 * gpipe_length_us(3, 4)] * 3
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
