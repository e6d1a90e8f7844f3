"""The linked page of many ranks, as far as it needs no browser."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import notebook_prof as nbp
from notebook_prof.cli.main import main
from notebook_prof.errors import SelectionError
from notebook_prof.ranks.page import queries
from notebook_prof.ranks.page.board import RankBoard
from notebook_prof.ranks.page.queries import RankProtocol
from notebook_prof.ranks.profiles import Ranks

from ..unit.test_answer_types import check_answer
from .drawn import write_rank, write_run
from .piped import write_gpipe
from .strange import EVIL, write_strange


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Ranks:
    return nbp.read_ranks(write_run(tmp_path_factory.mktemp("run")))


@pytest.fixture
def ranks(run: Ranks) -> Ranks:
    run.selection.clear()
    return run


@pytest.fixture(scope="module")
def board(run: Ranks) -> RankBoard:
    return run.dashboard()


@pytest.fixture
def page(ranks: Ranks, board: RankBoard) -> RankProtocol:
    return RankProtocol(board)


@pytest.fixture
def quick_timelines(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out the content of timelines: it takes seconds, and reports of single profiles test it."""
    monkeypatch.setattr(queries, "trace_blocks", lambda trace, said, room, prefix: {f"{prefix}given": "{}"})


def drawn(page: RankProtocol, **selected: Any) -> dict[str, Any]:
    page.selection.clear()
    page.selection.update(**selected)
    content, buffers = page.answer({"t": "ranks"})
    check_answer("ranks", content, buffers)
    assert json.loads(json.dumps(content)) == content  # nothing that JSON cannot carry
    panels: dict[str, Any] = content["panels"]
    return panels


def test_ranks_fade_where_they_have_an_axis_and_filter_elsewhere(page: RankProtocol):
    everything, some = drawn(page), drawn(page, rank=3)
    assert some["bars"]["sources"]["bars_data"]["alpha"] == [0.18, 0.18, 0.18, 1.0]
    assert some["late"]["rank"] == everything["late"]["rank"]  # lateness is between all ranks
    length = "wait_ns_right"
    whole, own = (panels["talk"]["sources"]["talk_data"][length] for panels in (everything, some))
    assert whole == [3 * (3 * 45_000 + 25_000)]
    assert own == [3 * 25_000]
    assert "rank 3" in everything["late"]["tips"][0]
    assert "gemm" in everything["late"]["tips"][0]


def test_steps_and_a_brush_filter_figures_without_them(ranks: Ranks, page: RankProtocol):
    one = drawn(page, step=1)
    assert one["talk"]["sources"]["talk_data"]["wait_ns_right"] == [3 * 45_000 + 25_000]
    heat = one["heat"]["sources"]["heat_data"]
    assert [step for step, alpha in zip(heat["x"], heat["alpha"], strict=True) if alpha == 1] == [1] * 4
    start = int(ranks.steps().query("step == 1")["start_ns"].min())
    brushed = drawn(page, window=(start + 10_000, start + 20_000))
    assert brushed["talk"] == one["talk"]
    both = drawn(page, window=(start + 10_000, start + 20_000), step=[0, 2])
    assert both["bars"]["rank"] == []


def test_opening_timelines_under_one_selection(ranks: Ranks, page: RankProtocol):
    page.selection.update(track=5, rank=[1, 3])
    content, _ = page.answer({"t": "open", "ranks": [1, 3]})
    assert content["ranks"] == [1, 3]
    assert ranks.selection.track is None  # tracks of another trace
    meta, _ = page.answer({"t": "meta", "of": content["of"]})
    assert {track["rank"] for track in meta["tracks"]} == {1, 3}
    assert ranks.selection.rank == (1, 3)
    again, _ = page.answer({"t": "open", "ranks": [0]})
    late, _ = page.answer({"t": "meta", "of": content["of"]})
    assert "replaced" in late["failed"]
    assert page.answer({"t": "meta", "of": again["of"]})[0]["slices"] == 15
    assert "no rank 77" in page.answer({"t": "open", "ranks": [77]})[0]["failed"]


def test_panels_that_have_nothing_to_show_are_left_out(page: RankProtocol, tmp_path: Path):
    assert page.panels == ["bars", "late", "heat", "marey", "talk"]
    piped = tmp_path / "piped"
    piped.mkdir()
    page = RankProtocol(nbp.read_ranks(write_gpipe(piped)).dashboard())
    assert page.panels[-2:] == ["links", "bubbles"]
    panels = drawn(page, rank=1)
    links = panels["links"]["sources"]["links_data"]
    shown = zip(links["y"], links["x"], links["alpha"], strict=True)
    assert sorted((src, dst) for src, dst, alpha in shown if alpha == 1) == [(0, 1), (1, 0), (1, 2), (2, 1)]
    assert panels["bubbles"]["tips"][1].startswith("stage 1 · rank 1")
    alone = tmp_path / "alone"
    alone.mkdir()
    write_rank(alone / "rank0.json", 0, 1)
    quiet = nbp.read_ranks(alone).dashboard()
    assert "it is unknown which is late" in quiet.headline
    assert "late" not in RankProtocol(quiet).panels


def test_a_process_group_stands_for_its_ranks(tmp_path: Path):
    write_gpipe(tmp_path, 3, 2, world=5)
    write_gpipe(tmp_path, 2, 2, first_rank=3, world=5)
    for rank in (3, 4):
        path = tmp_path / f"rank{rank}.json"
        path.write_text(path.read_text().replace('"Process Group Name": "1"', '"Process Group Name": "2"'))
    ranks = nbp.read_ranks(tmp_path)
    page = RankProtocol(ranks.dashboard())
    whole, own = drawn(page), drawn(page, group="2")
    assert ranks.selection.group == ("2",)
    assert own["bars"]["sources"]["bars_data"]["alpha"] == [0.18, 0.18, 0.18, 1.0, 1.0]
    talk = own["talk"]
    chosen = [alpha == 1 for alpha in talk["sources"]["talk_data"]["alpha"]]
    assert [group == "2" for group in talk["groups"]] == chosen
    assert chosen == sorted(chosen, reverse=True)  # the selected ones first
    assert set(talk["groups"]) == {"0", "2"}  # of the members
    cells = own["heat"]["sources"]["heat_data"]
    assert set(cells["y"]) == {3, 4}
    messages = ranks.collectives().query("group == '2'")
    assert sum(cells["value"]) == messages["dur"].sum()
    assert own["heat"]["title"] == "Time in process group 2 by rank and step"
    assert own["links"]["members"] == [[3, 4], [4, 3]]
    assert len(whole["links"]["members"]) == 6
    assert drawn(page, group="0")["late"]["rank"] == whole["late"]["rank"]
    assert own["late"]["rank"] == []  # of messages, somebody always waits
    assert drawn(page, group="2", rank=[1, 4])["bars"]["sources"]["bars_data"]["alpha"][3:] == [0.18, 1.0]
    assert page.select({"group": ["0"]}, "talk", None)["state"]["group"] == ["0"]


def test_faults_are_sentences_on_the_page_and_the_rest_is_shown(tmp_path: Path):
    for rank in (0, 1, 2):
        write_rank(tmp_path / f"rank{rank}.json", rank, 5, late_us=10 * rank)
    write_rank(tmp_path / "copy.json", 1, 5)
    write_rank(tmp_path / "rank4.json", 4, 5, steps=range(1, 3), cuda_version="12.4")
    whole = (tmp_path / "rank2.json").read_text()
    (tmp_path / "rank2.json").write_text(whole[: len(whole) * 2 // 3])
    write_rank(tmp_path / "rank0.json", 0, 5, cuda_version="12.1")
    board = nbp.read_ranks(tmp_path).dashboard()
    board.to_html(tmp_path / "page.html", timelines=[])
    static = (tmp_path / "page.html").read_text().partition('<div id="nbp-static">')[2]
    sentences = ["rank 3 of 5", "rank 1 is in", "12.1 on rank 0", "steps 1 to 2 on 1 rank", "rank 2: "]
    for sentence in sentences:
        assert sentence in board.headline
        assert sentence in static.partition("<script")[0]
    assert set(board.frames({}).steps["rank"]) == {0, 1, 2, 4}


@pytest.mark.usefixtures("quick_timelines")
def test_a_report_says_which_timelines_it_holds(run: Ranks, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    run.selection.clear()
    path = tmp_path / "ranks.html"

    def timelines_in_file() -> dict[str, Any]:
        text = path.read_text()
        settings = text.partition('id="nbp-settings">')[2].partition("</script>")[0]
        timelines: dict[str, Any] = json.loads(settings)["timelines"]
        assert ('id="nbp-timelines-given"' in text) == bool(timelines["ranks"])
        return timelines

    run.to_html(path)
    assert timelines_in_file() == {"ranks": [0, 1, 2, 3], "note": ""}
    run.to_html(path, timelines=[])
    assert "no timelines" in timelines_in_file()["note"]
    with pytest.raises(SelectionError, match="no rank 9"):
        run.to_html(path, timelines=[9])
    monkeypatch.setattr("notebook_prof.ranks.page.board.MOST_RANKS", 2)
    run.to_html(path)
    assert timelines_in_file()["ranks"] == [2, 3]
    assert "the timelines of ranks 2, 3: those selected, late, early" in timelines_in_file()["note"]
    run.selection.rank = 1
    run.to_html(path)
    assert timelines_in_file()["ranks"] == [1, 3]
    monkeypatch.setattr(
        run, "trace", lambda rank: (_ for _ in ()).throw(OSError(f"rank {rank} is elsewhere"))
    )
    run.to_html(path)
    assert timelines_in_file() == {"ranks": [], "note": "This file has no timelines: rank 1 is elsewhere."}


@pytest.mark.usefixtures("quick_timelines")
def test_a_report_of_ranks_from_the_command_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    files = [str(path) for path in sorted(write_run(tmp_path).iterdir())]
    assert main(["report", *files]) == 0
    assert capsys.readouterr().out.strip() == str(tmp_path / "ranks.html")
    text = (tmp_path / "ranks.html").read_text()
    assert "4 ranks; rank 3 is the latest" in text
    monkeypatch.chdir(tmp_path)
    assert main(["report", "--ranks", "*.json.gz", "-o", "two.html"]) == 0
    assert "4 ranks; rank 3 is the latest" in (tmp_path / "two.html").read_text()
    assert main(["report", *files, "--no-source", "-o", "three.html"]) == 0
    assert "4 ranks; rank 3 is the latest" in (tmp_path / "three.html").read_text()
    assert main(["report", *files, "-o", files[1]]) == 2
    assert main(["report", *files, "--from", "kineto"]) == 2
    assert "--from is for one file" in capsys.readouterr().err


def test_the_file_says_the_same_without_scripts(tmp_path: Path):
    ranks = nbp.read_ranks(write_strange(tmp_path), progress=False)
    ranks.selection.update(rank=5)
    ranks.to_html(tmp_path / "ranks.html", timelines=[5])
    text = (tmp_path / "ranks.html").read_text(encoding="utf-8")
    assert EVIL not in text
    static = text.partition('<div id="nbp-static">')[2].partition("<script")[0]
    assert static.count("<tr>") == 7
    assert 'id="nbp-timelines-given"' in text
    assert '"rank":[5]' in text
    assert len(text) < 2_000_000 + 5 * len(static)
