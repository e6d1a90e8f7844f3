"""What holds for every sample of every format.

speedscope's four checks: the figures are those expected; a copy called ``unknown``, however packed, gives the
same; what is exported and read again is the same; and what is exported from that is the same to the byte.
Beside them names of collectives, what the verdict and advice say, and what other analyses answer.

``NBP_UPDATE_SAMPLES=1`` writes the expectations anew: look at the difference before you keep it.
"""

import json
import os
import shutil
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from notebook_prof import NotebookProfError, Trace, read_trace
from notebook_prof.analysis import what_if
from notebook_prof.analysis.critical_path.replay.answer import MOST_ERROR
from notebook_prof.analysis.scope import sharing
from notebook_prof.readers.codec.compression import decompress
from notebook_prof.trace import ImportReport
from notebook_prof.units import format_share
from notebook_prof.writers import write_chrome

from .. import samples
from ..comparison.test_comparison import check_comparisons
from ..draws import EXPLORE
from ..properties.test_verdict_claims import check_verdict
from ..unit.test_collective_names import check_names
from ..unit.test_counter_lanes import check_shares
from ..unit.test_labels import check_labels
from ..unit.test_path_answer import check_path
from ..unit.test_table_agrees import check_tables
from .test_advice import MOST_BYTES
from .test_advice import check as check_advice
from .test_brief import check_brief
from .test_call_tree import check_call_trees
from .test_critical_path import check_critical_path
from .test_device import check_busy
from .test_expectations import check_expectations
from .test_verdict_and_path import check_bound
from .test_what_if import check_unchanged
from .test_why import check_why_anywhere

KNOWN = samples.expected()
KINDS = KNOWN if EXPLORE else samples.kinds()
ANALYSED = KNOWN if EXPLORE else samples.analysed()
SMALL = samples.kinds(MOST_BYTES)
BRIEFS = {row["source"]: sample for sample, row in KNOWN.items()}.values()
"""One of each format: a brief says the verdict, whose claims are asked of more."""
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
    check_judgements(trace, sample)
    if sample in KINDS:
        check_copies(sample, trace, figures, tmp_path)


@sharing
def check_judgements(trace: Trace, sample: str) -> None:
    """Laws of tables, which see rows and what a reader missed; advice and the brief of small ones."""
    check_names(trace)
    check_labels(trace)
    check_shares(trace)
    check_replay(sample, trace)
    if sample not in ANALYSED:
        return
    path = samples.path_of(sample)
    check_verdict(trace)
    check_busy(trace)
    check_tables(trace)
    check_call_trees(trace)
    check_path(trace)
    if path.is_dir() or path.stat().st_size <= MOST_BYTES:
        check_advice(trace)
        if EXPLORE or sample in BRIEFS:
            check_brief(trace)
    if sample in SMALL:
        for check in OF_SMALL:
            check(trace)


OF_SMALL = (
    *(check_critical_path, check_bound, check_why_anywhere, check_unchanged),
    *(check_expectations, check_comparisons),
)
"""Slow laws, tested on a few samples: each format, with and without links, with and without steps."""


def replay_rows() -> dict[str, list[str]]:
    """The table of benchmarks/results/every_sample.md, by sample: its cells."""
    lines = (samples.HERE.parent / "benchmarks" / "results" / "every_sample.md").read_text().splitlines()
    cells = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("| `")
    ]
    return {first.strip("`"): values for first, *values in cells}


REPLAYED = replay_rows()


def check_replay(sample: str, trace: Trace) -> None:
    """A replay that is off by more than 5 % is refused with a reason; the table says which those are."""
    if not len(trace.slices):
        assert sample not in REPLAYED
        return
    answer = what_if(trace, scale={"/^/": 0.9})
    assert answer.refused == bool(answer.reason)
    error = answer.replay_error
    if np.isfinite(error):
        assert answer.refused == (error > MOST_ERROR)
        assert "is off by" in answer.reason or not answer.refused
        assert len(answer.steps)
    else:
        assert answer.refused
    slices, *_, written, decision = REPLAYED[sample]
    assert slices == f"{len(trace.slices):,}"
    assert written == (format_share(error, 2) if np.isfinite(error) else "–")
    assert decision.startswith("refused") == answer.refused


def test_each_sample_with_slices_has_its_replay_error_in_the_docs() -> None:
    assert set(REPLAYED) == {name for name, row in KNOWN.items() if row["rows"].get("slices")}
    assert sum(cells[-1] == "refused" for cells in REPLAYED.values()) >= 3


def check_copies(sample: str, trace: Trace, figures: dict[str, Any], folder: Path) -> None:
    """A copy called ``unknown``, however packed, gives the same; so does what is written and read again."""
    path, unknown = samples.path_of(sample), folder / "unknown"
    if path.is_dir():
        shutil.copytree(path, unknown)
    else:
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
    write_chrome(trace, folder / "exported.json")
    if len(trace.slices):
        assert len(read_trace(folder / "exported.json").slices) >= len(trace.slices)


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
    for sample in KNOWN:
        shared = sample.startswith("shared/") and not samples.ROOTS["shared"].is_dir()
        if shared or sample in samples.FOLDERS or "truncated" in sample:
            continue
        content = samples.unpacked(sample)[:20_000]
        for name, pack in samples.PACKINGS.items():
            report = ImportReport()
            assert decompress(pack(content), report) == content, (sample, name)
            assert not report
