"""Ranks on a Dask cluster: the same figures, and what happens when parts of it die."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import notebook_prof as nbp
from notebook_prof import analysis
from notebook_prof.ranks import cluster
from notebook_prof.trace import Trace

from .drawn import write_run

distributed = pytest.importorskip("distributed")
pytestmark = pytest.mark.slow


@pytest.fixture
def local() -> Iterator[Any]:
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, silence_logs=50
    ) as running:
        yield running


@pytest.fixture
def client(local: Any) -> Iterator[Any]:
    with distributed.Client(local) as connected:
        yield connected


def test_the_cluster_gives_the_same(tmp_path: Path, client: Any):
    folder = write_run(tmp_path)
    there, here = nbp.read_ranks(folder, client), nbp.read_ranks(folder)
    assert list(there) == [0, 1, 2, 3]
    pd.testing.assert_frame_equal(there.map(analysis.device), here.map(analysis.device))
    pd.testing.assert_frame_equal(there.stragglers(), here.stragglers())
    assert "on a Dask cluster" in repr(there)
    (folder / "rank1.json.gz").write_bytes(b"broken")
    again = nbp.read_ranks(folder, client)
    assert again.map(analysis.device)["rank"].tolist() == [0, 2, 3]
    assert "rank 1" in again.report["rank-unreadable"].example


def test_a_killed_worker_costs_nothing(tmp_path: Path, client: Any):
    mark = tmp_path / "killed"

    def kills_once(trace: Trace) -> int:
        if trace.metadata["rank"] == 2 and not mark.exists():
            mark.write_text("once")
            os.kill(os.getpid(), signal.SIGKILL)
        return len(trace)

    (tmp_path / "run").mkdir()
    table = nbp.read_ranks(write_run(tmp_path / "run"), client).map(kills_once)
    assert mark.exists()
    assert table["value"].tolist() == [15] * 4


def test_results_lost_before_they_were_fetched(tmp_path: Path, client: Any):
    begun = tmp_path / "begun"
    begun.mkdir()

    def leaves_a_mark(trace: Trace) -> int:
        (begun / f"{trace.metadata['rank']}-{time.monotonic_ns()}").touch()
        return len(trace)

    def kill_everyone(done: int, total: int) -> None:
        if done == 1:
            deadline = time.monotonic() + 30
            while any(client.processing().values()) and time.monotonic() < deadline:
                time.sleep(0.05)
            for process in client.run(os.getpid).values():
                os.kill(process, signal.SIGKILL)
            time.sleep(1)  # the client hears that the results are gone

    (tmp_path / "run").mkdir()
    table = nbp.read_ranks(write_run(tmp_path / "run"), client, progress=kill_everyone).map(leaves_a_mark)
    assert table["value"].tolist() == [15] * 4
    assert len(list(begun.iterdir())) > 4


def test_a_scheduler_that_goes_away(tmp_path: Path, local: Any, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(cluster, "_PATIENCE_S", 0.5)

    def slow(trace: Trace) -> int:
        if trace.metadata["rank"] > 0:
            time.sleep(60)
        return 1

    connected = distributed.Client(local, timeout=3)
    try:
        ranks = nbp.read_ranks(write_run(tmp_path), connected, progress=lambda done, total: gone(done))

        def gone(done: int) -> None:
            if done == 1:
                local.sync(local.scheduler.close)

        table = ranks.map(slow)
    finally:
        connected.close(timeout=1)
    assert table["rank"].tolist() == [0]
    assert ranks.report["scheduler-lost"].count == 3
    assert "rank 1" in ranks.report["scheduler-lost"].example


def test_an_interrupt_cancels(tmp_path: Path, client: Any):
    def pause(trace: Trace) -> int:
        time.sleep(0.5)
        return 1

    def interrupt(done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        nbp.read_ranks(write_run(tmp_path, 8), client, progress=interrupt).map(pause)
    deadline = time.monotonic() + 20
    while any(client.processing().values()) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not any(client.processing().values())


def test_files_are_read_where_they_are(tmp_path: Path, client: Any):
    folder = write_run(tmp_path)
    files = cluster.find_there([str(folder)], client)
    assert [file.rank for file in files] == [0, 1, 2, 3]
    assert all(file.workers == () for file in files)  # every worker sees them
