"""What holds for every sample of every format.

speedscope's four checks: the figures are those expected; a copy called ``unknown``, however packed, gives the
same; what is exported and read again is the same; and what is exported from that is the same to the byte.
Beside them names of collectives, what the verdict says, and advice.

``NBP_UPDATE_SAMPLES=1`` writes the expectations anew: look at the difference before you keep it.
"""

from __future__ import annotations

import json
import os
import shutil
import zlib
from pathlib import Path
from typing import Any

import pytest

from notebook_prof.errors import NotebookProfError
from notebook_prof.readers import read_trace
from notebook_prof.readers.codec.compression import decompress
from notebook_prof.trace import ImportReport, Trace

from .. import samples
from ..properties.test_verdict_claims import check_verdict
from ..round_trip import changes
from ..unit.test_collective_names import check_names
from ..unit.test_labels import check_labels
from ..unit.test_path_answer import check_path
from ..unit.test_table_agrees import check_tables
from .test_advice import MOST_BYTES
from .test_advice import check as check_advice
from .test_brief import check_brief
from .test_call_tree import check_call_trees
from .test_device import check_busy

KNOWN = samples.expected()
KINDS = KNOWN if "NBP_EXPLORE" in os.environ else samples.kinds()
ANALYSED = KNOWN if "NBP_EXPLORE" in os.environ else samples.analysed()
LARGE = 1_500


def packing_of(sample: str) -> str:
    """One a sample, so that all of them have their turn with every format."""
    return sorted(samples.PACKINGS)[zlib.crc32(sample.encode()) % len(samples.PACKINGS)]


@pytest.mark.parametrize("sample", KNOWN)
def test_a_sample_is_read_judged_and_written(sample: str, tmp_path: Path) -> None:
    """Each is read once for all that holds of it; what costs more is asked of one of each kind."""
    path = samples.path_of(sample)
    if sample.startswith("shared/") and not samples.ROOTS["shared"].is_dir():
        pytest.skip("the shared recordings are not here")
    trace = read_trace(path)
    figures = samples.figures(trace)
    assert figures == KNOWN[sample]
    check_names(trace)
    check_labels(trace)
    if sample not in KINDS:
        return
    check_verdict(trace)
    check_copies(sample, trace, figures, tmp_path)
    if sample in ANALYSED:
        check_analyses(trace, small=path.is_dir() or path.stat().st_size <= MOST_BYTES)


def check_analyses(trace: Trace, small: bool) -> None:
    """Laws of tables, which see rows and what a reader missed; advice and the brief of small ones."""
    check_busy(trace)
    check_tables(trace)
    check_call_trees(trace)
    check_path(trace)
    if small:
        check_advice(trace)
        check_brief(trace)


def check_copies(sample: str, trace: Trace, figures: dict[str, Any], folder: Path) -> None:
    """A copy called ``unknown``, however packed, gives the same; so does what is written and read again."""
    path, unknown = samples.path_of(sample), folder / "unknown"
    if path.is_dir():
        shutil.copytree(path, unknown)
    else:
        if packing_of(sample) == "zstd":
            pytest.importorskip("zstandard")
        unknown.write_bytes(samples.PACKINGS[packing_of(sample)](samples.unpacked(sample)))
    assert samples.figures(read_trace(unknown)) == figures, packing_of(sample)
    if len(trace.slices) > LARGE:
        return
    first, second = folder / "first.nbprof", folder / "second.nbprof"
    trace.save(first)
    again = read_trace(first)
    assert samples.figures(again) == figures
    again.save(second)
    for file in sorted(first.iterdir()):
        assert (second / file.name).read_bytes() == file.read_bytes(), file.name
    check_chrome(trace, folder / "chrome.json")


def check_chrome(trace: Trace, path: Path) -> None:
    """All of it comes back from Chrome's format."""
    trace.to_chrome(path)
    assert changes(trace, read_trace(path)) == []


def test_every_file_is_a_sample_or_none(tmp_path: Path) -> None:
    """What is not in the list is no recording, or one that is in it under another name."""
    if not samples.ROOTS["shared"].is_dir():
        pytest.skip("the shared recordings are not here")
    update = os.environ.get("NBP_UPDATE_SAMPLES")
    checksums, figures = {_checksum(sample) for sample in KNOWN if not update}, {}
    for sample in samples.files():
        if (mark := _checksum(sample)) in checksums:
            continue
        checksums.add(mark)
        try:
            figures[sample] = samples.figures(read_trace(samples.path_of(sample)))
        except NotebookProfError:
            continue
    if update:
        figures |= {name: samples.figures(read_trace(samples.path_of(name))) for name in samples.FOLDERS}
        lines = (f"{json.dumps(name)}: {json.dumps(row)}" for name, row in figures.items())
        samples.EXPECTED.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    else:
        assert figures == {}


def _checksum(sample: str) -> int:
    return 0 if samples.path_of(sample).is_dir() else zlib.crc32(samples.unpacked(sample))


def test_every_packing_of_every_sample_is_undone() -> None:
    pytest.importorskip("zstandard")
    for sample in KNOWN:
        shared = sample.startswith("shared/") and not samples.ROOTS["shared"].is_dir()
        if shared or sample in samples.FOLDERS or "truncated" in sample:
            continue
        content = samples.unpacked(sample)[:20_000]
        for name, pack in samples.PACKINGS.items():
            report = ImportReport()
            assert decompress(pack(content), report) == content, (sample, name)
            assert not report
