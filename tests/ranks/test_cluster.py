"""Ranks on a Dask cluster: the same figures, and what happens when parts of it die."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest

import notebook_prof as nbp
from notebook_prof import analysis
from notebook_prof.ranks import reduction as cluster
from notebook_prof.ranks.files import RankFile
from notebook_prof.trace import Trace

from .drawn import write_run

dask = pytest.importorskip("dask")
distributed = pytest.importorskip("distributed")
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def local() -> Iterator[Any]:
    """One cluster for all tests but those that end it; its nannies start killed workers again."""
    # else a nanny whose worker is not back after 15 s is closed for good, as on a busy machine
    patient = {"distributed.deploy.lost-worker-timeout": "10m", "distributed.comm.timeouts.connect": "120s"}
    with (
        dask.config.set(patient),
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, silence_logs=50
        ) as running,
    ):
        yield running


@pytest.fixture
def client(local: Any) -> Iterator[Any]:
    with distributed.Client(local) as connected:
        connected.wait_for_workers(2, timeout=200)
        yield connected


def test_the_cluster_gives_the_same(tmp_path: Path, client: Any):
    folder = write_run(tmp_path)
    there, here = nbp.read_ranks(folder, client), nbp.read_ranks(folder)
    assert list(there) == [0, 1, 2, 3]
    pd.testing.assert_frame_equal(there.map(analysis.device), here.map(analysis.device))
    pd.testing.assert_frame_equal(there.stragglers(), here.stragglers())
    assert "on a Dask cluster" in repr(there)
    assert not there.report
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
    ranks = nbp.read_ranks(write_run(tmp_path / "run"), client)
    table = ranks.map(kills_once)
    assert mark.exists()
    assert table["value"].tolist() == [15] * 4
    assert "read again elsewhere" in ranks.report["worker-lost"].effect


def test_what_the_cluster_gives_up_is_a_sentence_each():
    killed = distributed.scheduler.KilledWorker("notebook-prof-2", None, 3)
    files = [RankFile(2, "rank2.json"), RankFile(5, "rank5.json")]
    futures = [SimpleNamespace(status="error", exception=lambda: killed), SimpleNamespace(status="cancelled")]
    lost, cancelled = (cluster._result(*pair) for pair in zip(futures, files, strict=True))
    assert (lost.rank, lost.read, cancelled.rank, cancelled.read) == (2, False, 5, False)
    assert "KilledWorker" in lost.report["rank-lost"].example
    assert lost.report["rank-lost"].example.startswith("rank 2: ")
    assert cancelled.report["scheduler-lost"].example == "rank 5: the cluster gave up on the task"


def test_results_lost_before_they_were_fetched(tmp_path: Path, client: Any):
    begun = tmp_path / "begun"
    begun.mkdir()

    def leaves_a_mark(trace: Trace) -> int:
        (begun / f"{trace.metadata['rank']}-{time.monotonic_ns()}").touch()
        return len(trace)

    def results() -> set[str]:
        return {key for key, state in list(client.futures.items()) if state.status == "finished"}

    def kill_everyone(done: int, total: int) -> None:
        if done == 1:
            deadline = time.monotonic() + 120
            while any(client.processing().values()) and time.monotonic() < deadline:
                time.sleep(0.05)
            lost_soon = results()
            for process in client.run(os.getpid).values():
                os.kill(process, signal.SIGKILL)
            while lost_soon and time.monotonic() < deadline:  # until the client has heard of each
                lost_soon &= results()
                time.sleep(0.01)

    (tmp_path / "run").mkdir()
    table = nbp.read_ranks(write_run(tmp_path / "run"), client, progress=kill_everyone).map(leaves_a_mark)
    assert table["value"].tolist() == [15] * 4
    assert len(list(begun.iterdir())) > 4


def test_a_scheduler_that_goes_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(cluster, "_PATIENCE_S", 0.5)
    released = tmp_path / "released"

    def slow(trace: Trace) -> int:
        deadline = time.monotonic() + 60
        while trace.metadata["rank"] > 0 and not released.exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        return 1

    (tmp_path / "run").mkdir()
    doomed = distributed.LocalCluster(
        n_workers=1, threads_per_worker=1, processes=False, dashboard_address=":0", silence_logs=50
    )
    connected = distributed.Client(doomed, timeout=200)

    def gone(done: int, total: int) -> None:
        if done == 1:
            doomed.sync(doomed.scheduler.close)

    try:
        ranks = nbp.read_ranks(write_run(tmp_path / "run"), connected, progress=gone)
        table = ranks.map(slow)
    finally:
        released.touch()
        connected.close(timeout=1)
        # it waits for a scheduler that is gone; in Python 3.10 asyncio's error is one of its own
        with contextlib.suppress(TimeoutError, asyncio.TimeoutError):
            doomed.close(timeout=1)
    assert table["rank"].tolist() == [0]
    assert ranks.report["scheduler-lost"].count == 3
    assert "rank 1" in ranks.report["scheduler-lost"].example
    assert list(ranks) == [0, 1, 2, 3]  # the rest is shown


def test_an_interrupt_cancels(tmp_path: Path, client: Any):
    def pause(trace: Trace) -> int:
        time.sleep(0.5)
        return 1

    def interrupt(done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        nbp.read_ranks(write_run(tmp_path, 8), client, progress=interrupt).map(pause)
    deadline = time.monotonic() + 120
    while any(client.processing().values()) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not any(client.processing().values())


def test_files_are_read_where_they_are(tmp_path: Path, client: Any):
    folder = write_run(tmp_path)
    files = cluster.find_there([str(folder)], client)
    assert [file.rank for file in files] == [0, 1, 2, 3]
    assert all(file.workers == () for file in files)  # every worker sees them
