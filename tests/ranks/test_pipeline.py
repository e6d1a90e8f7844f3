"""Pipelines: bubbles that are known, and the matrix of messages."""

from __future__ import annotations

from pathlib import Path

import pytest

import notebook_prof as nbp

from .drawn import write_rank, write_run
from .piped import BACKWARD_US, BYTES, FORWARD_US, gpipe_length_us, write_gpipe
from .strange import write_strange


@pytest.mark.parametrize(("stages", "microbatches"), [(4, 8), (2, 3)])
def test_bubbles_of_gpipe(tmp_path: Path, stages: int, microbatches: int):
    ranks = nbp.read_ranks(write_gpipe(tmp_path, stages, microbatches))
    table = ranks.pipeline()
    assert table[["stage", "rank"]].drop_duplicates().values.tolist() == [[s, s] for s in range(stages)]
    assert table["step"].tolist() == [0, 1] * stages
    both = FORWARD_US + BACKWARD_US
    for stage, row in table[table["step"] == 1].set_index("stage").iterrows():
        assert row["window_ns"] == 1000 * gpipe_length_us(stages, microbatches)
        assert row["compute_ns"] == 1000 * microbatches * both
        assert row["warmup_ns"] == 1000 * stage * FORWARD_US
        assert row["drain_ns"] == 1000 * stage * BACKWARD_US
        assert row["between_ns"] == 1000 * (stages - 1 - stage) * both
        assert row["other_ns"] == 0
    ideal = (stages - 1) / (microbatches + stages - 1)
    assert table["bubble_share"].tolist() == pytest.approx([ideal] * len(table))
    assert table["ideal_share"].tolist() == pytest.approx([ideal] * len(table))
    assert set(table["microbatches"]) == {microbatches}


def test_two_pipelines_beside_each_other(tmp_path: Path):
    for first in (0, 2):
        write_gpipe(tmp_path, 2, 4, first_rank=first, world=4)
    table = nbp.read_ranks(tmp_path).pipeline()
    assert table.groupby("pipeline")["rank"].unique().map(sorted).to_dict() == {0: [0, 1], 2: [2, 3]}
    assert table["bubble_share"].tolist() == pytest.approx([1 / 5] * 8)


def test_ranks_without_a_pipeline(tmp_path: Path):
    ranks = nbp.read_ranks(write_run(tmp_path))
    assert ranks.pipeline().empty
    assert ranks.links().empty
    assert ranks.flops().empty


def test_messages_between_neighbours(tmp_path: Path):
    steps, microbatches = 2, 8
    ranks = nbp.read_ranks(write_gpipe(tmp_path, 4, microbatches, steps))
    links = ranks.links()
    neighbours = {(a, b) for stage in range(3) for a, b in ((stage, stage + 1), (stage + 1, stage))}
    assert set(zip(links["src"], links["dst"], strict=True)) == neighbours
    assert set(links["count"]) == {steps * microbatches}
    row = links.iloc[0]
    assert row["bytes"] == steps * microbatches * BYTES
    # the receiver comes 20 µs before the sender, and both are in the message for 5 µs
    assert row[["wait_ns", "transfer_ns"]].tolist() == [16 * 20_000, 16 * 5_000]
    assert row["bytes_per_s"] == pytest.approx(BYTES / 5e-6)
    assert ranks.stragglers()["collectives"].tolist() == [steps] * 4  # the all-reduces only


def test_messages_of_which_one_end_is_missing(tmp_path: Path):
    write_gpipe(tmp_path, 3, 4, 1)
    (tmp_path / "rank1.json").unlink()
    table = nbp.read_ranks(tmp_path).links()
    assert table[["src", "dst", "count"]].values.tolist() == [[0, 1, 4], [1, 0, 4], [1, 2, 4], [2, 1, 4]]
    assert table["wait_ns"].eq(0).all()
    assert table["transfer_ns"].tolist() == [4 * 5_000, 4 * 25_000, 4 * 25_000, 4 * 5_000]


def test_flops_of_ranks(tmp_path: Path):
    write_rank(tmp_path / "rank0.json", 0, 1)
    quiet = nbp.read_ranks(tmp_path)
    assert quiet.flops().empty
    for rank in range(2):
        builder = nbp.TraceBuilder()
        main = builder.track("main")
        shapes = "[[2, 3], [3, 4]]" if rank == 0 else "[[2, 6], [6, 4]]"
        builder.slices(ts=[0, 2], dur=[10, 6], name=["block", "aten::mm"], track=main,
                       shapes=[None, shapes], step=[0, 0])  # fmt: skip
        builder.steps(step=[0], ts=[0], dur=[1000], source="mark")
        builder.seal().to_chrome(tmp_path / f"flop-rank{rank}.json")
    ranks = nbp.read_ranks(sorted(tmp_path.glob("flop*")))
    table = ranks.flops()
    assert table[["rank", "flops", "known"]].values.tolist() == [[0, 48.0, 1], [1, 96.0, 1]]
    assert ranks.imbalance("flops")["highest_rank"].tolist() == [1]
    assert table["flops_per_s"].tolist() == pytest.approx([48 / 1e-6, 96 / 1e-6])


def test_messages_of_unknown_types_have_no_size(tmp_path: Path) -> None:
    ranks = nbp.read_ranks(write_strange(tmp_path))
    links = ranks.links().set_index(["src", "dst"])
    assert links["bytes"].isna().loc[[(4, 5), (5, 4)]].all()
    assert links["bytes"].notna().loc[[(0, 1), (2, 3)]].all()
    assert "analysis-failed" not in ranks.report
