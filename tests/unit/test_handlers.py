"""Handlers for on_trace_ready: when they are called, and how they name their files."""

from __future__ import annotations

import gzip
import os
import re
import socket
from pathlib import Path

import pytest

import notebook_prof as nbp
from notebook_prof.errors import OptionError


def names(folder: Path) -> list[str]:
    return sorted(file.name for file in folder.iterdir())


def test_files_are_named_as_by_torch(tmp_path: Path) -> None:
    handler = nbp.tensorboard_trace_handler(tmp_path / "logs" / "run", "worker0", use_gzip=True)
    with nbp.profile(
        "system", schedule=nbp.schedule(wait=0, warmup=1, active=1), on_trace_ready=handler
    ) as p:
        for _ in range(4):
            p.step()
    files = names(tmp_path / "logs" / "run")
    assert len(files) == 2
    assert all(re.fullmatch(r"worker0\.\d{19}\.pt\.trace\.json\.gz", name) for name in files)
    first = tmp_path / "logs" / "run" / files[0]
    assert gzip.decompress(first.read_bytes()).startswith(b'{"schemaVersion": 1')
    assert nbp.read_trace(first).metadata["source"] == "kineto"
    assert nbp.read_trace(first).steps["step"].tolist() == p.cycles[0].trace.steps["step"].tolist() == [1]


def test_files_are_named_as_by_paddle(tmp_path: Path) -> None:
    with nbp.profile("system", on_trace_ready=nbp.export_chrome_tracing(tmp_path)):
        pass
    (name,) = names(tmp_path)
    worker = re.escape(f"host_{socket.gethostname()}pid_{os.getpid()}")
    assert re.fullmatch(worker + r"_time_\d{4}(_\d\d){5}_\d{6}\.paddle_trace\.json", name)
    assert nbp.open_profile(tmp_path / name).trace.metadata["source"] == "kineto"


def test_no_two_cycles_share_a_file(tmp_path: Path) -> None:
    p = nbp.Profile(nbp.TraceBuilder().seal())
    for handler in (nbp.export_chrome_tracing(tmp_path, "a"), nbp.tensorboard_trace_handler(tmp_path, "b")):
        for _ in range(20):
            handler(p)
    assert len(names(tmp_path)) == 40


def test_a_cycle_that_the_end_of_the_code_cuts_is_handed_over_too() -> None:
    ready: list[nbp.Profile] = []
    with nbp.profile(
        "system", schedule=nbp.schedule(wait=1, warmup=1, active=2), on_trace_ready=ready.append
    ) as p:
        for _ in range(7):
            p.step()
    assert len(ready) == len(p.cycles) == 2
    assert ready[1] is p.cycles[1]


def test_nothing_recorded_hands_nothing_over() -> None:
    ready: list[nbp.Profile] = []
    with nbp.profile("system", steps=(5, 9), on_trace_ready=ready.append) as p:
        p.step()
    assert ready == []
    assert len(p.cycles) == 1


def test_a_handler_that_raises_at_the_end_leaves_the_data() -> None:
    def fail(profile: nbp.Profile) -> None:
        raise LookupError("mine")

    p = nbp.profile("system", on_trace_ready=fail)
    with pytest.raises(LookupError, match="mine"), p:
        pass
    assert nbp.last is p.cycles[-1]
    assert p.trace.metadata["source"] == "recording"


@pytest.mark.parametrize("make", [nbp.tensorboard_trace_handler, nbp.export_chrome_tracing])
def test_what_cannot_be_written_is_said_at_once(make: object, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert callable(make)
    with pytest.raises(OptionError, match=r"folder .*file.* cannot be made"):
        make(tmp_path / "file")
    for name in ("../up", "", ".."):
        with pytest.raises(OptionError, match="without a folder"):
            make(tmp_path, name)
