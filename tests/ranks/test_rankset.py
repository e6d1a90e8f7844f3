"""The set of ranks: what it finds, how it reduces, what it says of faults."""

from __future__ import annotations

import gzip
import json
import os
import signal
import threading
from pathlib import Path

import pandas as pd
import pytest

import notebook_prof as nbp
from notebook_prof import analysis
from notebook_prof.analysis.time.operators import operator_times
from notebook_prof.errors import FormatError, OptionError
from notebook_prof.ranks.analysis.tables import STANDARD
from notebook_prof.ranks.files import inspected
from notebook_prof.ranks.one_rank import reduce_rank, with_rank
from notebook_prof.trace import Trace

from .drawn import write_rank, write_run
from .piped import write_gpipe


def busy(trace: Trace) -> int:
    """A user's own analysis."""
    return int(analysis.device(trace)["busy_ns"].sum())


def dies_on_rank_2(trace: Trace) -> int:
    if trace.metadata["rank"] == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    return 1


def test_order_rank_and_lazy_reading(tmp_path: Path):
    for rank in (10, 9, 2):
        write_rank(tmp_path / f"worker{rank}.json", rank, 11)
    ranks = nbp.read_ranks(tmp_path / "*.json")
    assert list(ranks) == [2, 9, 10]
    assert ranks.files["slices"].isna().all()  # nothing was read
    assert ranks[9].trace.metadata["rank"] == 9
    with pytest.raises(KeyError, match="no rank 3: there are 3 ranks between 2 and 10"):
        ranks[3]


def test_map_gives_one_frame_with_the_rank(tmp_path: Path):
    ranks = nbp.read_ranks(write_run(tmp_path))
    table = ranks.map(analysis.device)
    assert table.columns[0] == "rank"
    assert table["rank"].tolist() == [0, 1, 2, 3]
    assert ranks.map(busy).to_dict("list") == {"rank": [0, 1, 2, 3], "value": [255_000] * 4}
    assert ranks.map(analysis.operators, by=["name", "step"])["rank"].nunique() == 4
    assert isinstance(ranks.map(analysis.phases)["phase"].dtype, pd.CategoricalDtype)


def test_processes_give_the_same(tmp_path: Path):
    folder = write_run(tmp_path)
    here = nbp.read_ranks(folder, processes=1).map(analysis.device)
    there = nbp.read_ranks(folder, processes=2).map(analysis.device)
    pd.testing.assert_frame_equal(here, there)


def test_a_closure_travels_too(tmp_path: Path):
    pytest.importorskip("cloudpickle")
    factor = 3
    table = nbp.read_ranks(write_run(tmp_path), processes=2).map(lambda trace: factor * len(trace))
    assert table["value"].tolist() == [45] * 4


def test_rank_from_the_file_else_its_name_else_its_place(tmp_path: Path):
    write_rank(tmp_path / "a-rank5.json", 0)
    write_rank(tmp_path / "b-rank3.json", None)
    write_rank(tmp_path / "c.json", None)
    ranks = nbp.read_ranks(tmp_path)
    assert ranks.files[["rank", "file", "rank_from"]].values.tolist() == [
        [0, "a-rank5.json", "file"],
        [1, "c.json", "order"],
        [3, "b-rank3.json", "name"],
    ]
    assert "numbered in order" in repr(ranks.report)
    read = nbp.read_ranks({7: tmp_path / "c.json"})
    assert list(read) == [7]


def test_tables_beside_traces_are_no_ranks(tmp_path: Path):
    write_run(tmp_path)
    (tmp_path / "rank0.key_averages.csv").write_text("name,calls")
    for source in (tmp_path, tmp_path / "*"):
        ranks = nbp.read_ranks(source)
        assert list(ranks) == [0, 1, 2, 3]
        assert not ranks.report


def test_files_merged_into_one(tmp_path: Path):
    folder = write_run(tmp_path)
    nbp.merge_trace_events(str(folder / "*.gz"), tmp_path / "all.json")
    assert len(nbp.read_trace(tmp_path / "all.json")) == 4 * 15


def test_what_analyses_share_changes_none_of_them(tmp_path: Path):
    write_gpipe(tmp_path, 2, 2)
    file = inspected(str(tmp_path / "rank0.json"))
    reduced, trace = reduce_rank(file, STANDARD), nbp.read_trace(file.path)
    assert reduced.failures == {}
    for name, (alone, options) in STANDARD.items():
        pd.testing.assert_frame_equal(reduced.frames[name], with_rank(alone(trace, **options), 0))
    columns = ["name", "count", "total_ns", "self_ns", "device_ns", "share"]
    whole = analysis.operators(trace)
    assert len(whole)
    pd.testing.assert_frame_equal(operator_times(trace)[columns], whole[columns])


def test_no_files_and_wrong_words():
    with pytest.raises(FormatError, match="no file matches"):
        nbp.read_ranks("nothing-here-*.json")
    with pytest.raises(OptionError, match="whole numbers"):
        nbp.read_ranks({"a": "x.json"})  # type: ignore[dict-item]


def test_ranks_of_which_none_can_be_read(tmp_path: Path):
    for paths in (tmp_path / "nowhere", [tmp_path, tmp_path / "nowhere"]):
        with pytest.raises(FileNotFoundError, match="nowhere"):
            nbp.read_ranks(paths)
    (tmp_path / "rank0.json").touch()
    ranks = nbp.read_ranks(tmp_path / "rank0.json")
    for question in (ranks.imbalance, ranks.steps, ranks.stragglers, ranks.critical_path):
        with pytest.raises(FormatError, match=r"no rank could be read: rank 0: .*the file is empty"):
            question()


def test_one_rank_without_collectives_has_a_page_without_paths(tmp_path: Path):
    path = tmp_path / "rank0.json"
    row = {"ph": "X", "name": "aten::add", "cat": "cpu_op", "pid": 1, "tid": 1, "ts": 10, "dur": 5}
    path.write_text(json.dumps([row]))
    (tmp_path / "rank1.json").write_text("hello")
    nbp.read_ranks(tmp_path).to_html(tmp_path / "r.html")
    assert (tmp_path / "r.html").stat().st_size > 10_000


def test_missing_and_duplicated_ranks(tmp_path: Path):
    write_run(tmp_path)
    (tmp_path / "rank1.json.gz").unlink()
    write_rank(tmp_path / "rank2-again.json.gz", 2)
    ranks = nbp.read_ranks(tmp_path)
    assert list(ranks) == [0, 2, 3]
    assert "rank 1 of 4" in ranks.report["rank-missing"].example
    assert ranks.report["rank-missing"].advice == "add its file if it was recorded"
    assert "rank 2 is in rank2-again.json.gz and in rank2.json.gz" in ranks.report["rank-duplicated"].example
    assert ranks.stragglers()["rank"].tolist()[0] == 3


def test_truncated_and_unreadable_files(tmp_path: Path):
    write_run(tmp_path)
    whole = gzip.decompress((tmp_path / "rank1.json.gz").read_bytes())
    (tmp_path / "rank1.json.gz").write_bytes(gzip.compress(whole)[:-60])
    (tmp_path / "rank2.json.gz").write_bytes(b"not a trace at all")
    ranks = nbp.read_ranks(tmp_path)
    table = ranks.breakdown()
    assert table["rank"].unique().tolist() == [0, 1, 3]
    text = repr(ranks.report)
    assert "truncated" in text
    assert "rank 1: " in text
    assert "rank-unreadable: rank 2: rank2.json.gz" in text
    ranks.forget()
    assert len(ranks.breakdown()) == len(table)
    assert repr(ranks.report) == text  # told once


def test_different_steps_and_versions(tmp_path: Path):
    write_rank(tmp_path / "rank0.json", 0, 2, steps=range(3), nccl_version="2.17.1")
    write_rank(tmp_path / "rank1.json", 1, 2, steps=range(1, 4), nccl_version="2.18.3", late_us=20)
    ranks = nbp.read_ranks(tmp_path)
    assert "2.17.1 on rank 0; 2.18.3 on rank 1" in ranks.report["versions-differ"].example
    table = ranks.collectives()
    shared = table[table["match"].notna()]
    assert sorted(shared["step"].unique()) == [1, 2]
    assert "steps 0 to 2 on 1 rank (such as 0)" in ranks.report["steps-differ"].example
    assert "collective-not-matched" in ranks.report
    assert ranks.stragglers()[["rank", "late_ns"]].values.tolist()[0] == [1, 40_000]


def test_an_analysis_that_raises(tmp_path: Path):
    ranks = nbp.read_ranks(write_run(tmp_path))
    with pytest.raises(OptionError):
        ranks.map(analysis.operators, by="nonsense")

    def odd(trace: Trace) -> int:
        if trace.metadata["rank"] == 1:
            raise ValueError("odd")
        return 1

    assert ranks.map(odd)["rank"].tolist() == [0, 2, 3]
    assert "rank 1: ValueError: odd" in ranks.report["analysis-failed"].example


@pytest.mark.slow
def test_a_process_that_dies_costs_one_rank(tmp_path: Path):
    ranks = nbp.read_ranks(write_run(tmp_path), processes=2)
    table = ranks.map(dies_on_rank_2)
    assert table["rank"].tolist() == [0, 1, 3]
    assert "worker-died" in ranks.report
    assert "rank 2" in ranks.report["rank-lost"].example


def test_an_interrupt_ends_the_processes(tmp_path: Path):
    ranks = nbp.read_ranks(write_run(tmp_path), processes=2, progress=lambda done, total: interrupt(done))
    before = threading.active_count()

    def interrupt(done: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ranks.map(busy)
    assert threading.active_count() <= before + 2
    assert nbp.read_ranks(tmp_path).map(busy)["value"].tolist() == [255_000] * 4


def test_progress_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    steps: list[tuple[int, int]] = []
    nbp.read_ranks(write_run(tmp_path), progress=lambda *at: steps.append(at)).map(busy)
    assert steps == [(1, 4), (2, 4), (3, 4), (4, 4)]
    nbp.read_ranks(tmp_path, progress=True).map(busy)
    written = capsys.readouterr()
    assert "4/4" in written.out
    assert written.err == ""
