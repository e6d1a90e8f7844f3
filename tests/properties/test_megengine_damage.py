"""Whatever is done to a file of MegEngine: a Trace with a report, or an error that says what was seen."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from notebook_prof.errors import NotebookProfError
from notebook_prof.readers.base import Probe
from notebook_prof.readers.megengine import MegEngineReader
from notebook_prof.trace import Trace, TraceBuilder

from ..damage import damaged

FILES = ("profiling_train.json", "cli.chrome_timeline.json", "memory_flow.svg")


@pytest.mark.parametrize("name", FILES)
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_damage_is_survived(name: str, data: Path, draw: st.DataObject) -> None:
    raw = gzip.decompress((data / "megengine" / f"{name}.gz").read_bytes())
    broken = draw.draw(damaged(raw))
    reader, builder = MegEngineReader(), TraceBuilder()
    reader.recognises(Probe(Path("unknown"), broken[:65536]))
    try:
        reader.read(broken, builder)
        trace = builder.seal()
    except NotebookProfError:
        return
    assert isinstance(trace, Trace)


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=200))
def test_any_bytes_are_survived(raw: bytes) -> None:
    for start in (
        b"",
        b'{"traceEvents": [',
        b"<svg https://megengine.org.cn <rect ",
        b'{"profiler": {"device": {',
    ):
        try:
            MegEngineReader().read(start + raw, TraceBuilder())
        except NotebookProfError:
            continue
