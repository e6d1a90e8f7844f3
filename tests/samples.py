"""What every sample of every format holds, in a few figures: what ``tests/data/samples.json`` expects."""

from __future__ import annotations

import gzip
import io
import json
import lzma
import zipfile
import zlib
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa

from notebook_prof.readers import read_trace
from notebook_prof.trace import Trace
from notebook_prof.trace.schema import TABLES

from .draws import EXPLORE

HERE: Final = Path(__file__).parent
EXPECTED: Final = HERE / "data" / "samples.json"
ROOTS: Final = {"data": HERE / "data", "shared": HERE.parents[1] / "shared" / "traces"}
FOLDERS: Final = (
    "data/mindspore/v200_graph",
    "data/mindspore/v200_minddata",
    "data/mindspore/v2100_graph",
    "shared/ascend_msprof",
    "shared/fetched/mindinsight/tests/utils/resource/cluster_propose",
    "shared/fetched/mindinsight/tests/utils/resource/profiler",
    "shared/fetched/mindinsight/tests/utils/resource/run_1",
    "shared/fetched/mindinsight/tests/utils/resource/run_2",
    "shared/fetched/mindinsight_r05/tests/utils/resource/profiler",
    "shared/fetched/mindinsight_raw",
    "shared/jax_cpu",
    "shared/jax_gpu_rocm",
)
"""Formats that are folders: each is one recording, beside its files."""


def expected() -> dict[str, dict[str, Any]]:
    """Figures by sample, as in ``shared/jax_cpu/vm.xplane.pb``."""
    return json.loads(EXPECTED.read_text()) if EXPECTED.exists() else {}


def kinds(most_bytes: int | None = None) -> list[str]:
    """One sample of each kind: the first of those of a format that hold the same tables and miss the same."""
    # With `most_bytes`, files of so many at most: one of each format, and one with and without links and
    # steps. That is enough for laws of analyses, which see neither what a reader missed nor what it keeps
    # beside. All kinds, with the reader's report, are asked in ``tests/analysis/test_samples.py``.
    first: dict[object, str] = {}
    for sample, row in expected().items():
        path = path_of(sample)
        if most_bytes is None:
            keys = [(row["source"], *(tuple(row[part]) for part in ("rows", "tables", "report")))]
        elif not path.is_file() or path.stat().st_size >= most_bytes:
            continue
        elif EXPLORE:
            keys = [(row["source"], *row["rows"])]
        else:
            keys = [row["source"], ("flows" in row["rows"], "steps" in row["rows"])]
        for key in keys:
            first.setdefault(key, sample)
    return sorted({*first.values()})


def analysed() -> frozenset[str]:
    """One sample of each format and tables with rows, and one of each thing that a reader can have missed."""
    first: dict[object, str] = {}
    for sample, row in expected().items():
        for part in ((row["source"], *row["rows"]), *row["report"]):
            first.setdefault(part, sample)
    return frozenset(first.values())


def files() -> Iterator[str]:
    """All files beside and in the repository that may be samples, in order."""
    for name, root in ROOTS.items():
        for path in sorted(root.rglob("*")):
            if path.is_file() and "LICENSES" not in path.parts and path != EXPECTED:
                yield f"{name}/{path.relative_to(root).as_posix()}"


def path_of(sample: str) -> Path:
    """Where a sample lies."""
    root, _, path = sample.partition("/")
    return ROOTS[root] / path


@cache
def trace_of(sample: str) -> Trace:
    """What a sample holds, read once a process: for the small ones that several tests only look at."""
    return read_trace(path_of(sample))


def figures(trace: Trace) -> dict[str, Any]:
    """What is compared: who read it, rows of all tables, totals, a checksum of the slices, the report."""
    s = trace.slices
    times = (
        np.stack([s[name].to_numpy() for name in ("ts", "dur", "self_ns")]) if len(s) else np.empty((3, 0))
    )
    names = s["name"].cat.codes.to_numpy()
    words = np.array([*s["name"].cat.categories.astype(str), ""])
    rank = np.unique(words, return_inverse=True)[1]
    order = np.lexsort((times[2], rank[names], times[1], times[0]))
    used = "\n".join(sorted({str(words[code]) for code in np.unique(names)}))
    content = times[:, order].astype("<i8").tobytes() + used.encode(errors="surrogatepass")
    tables = trace.metadata.get("tables") or {}
    return {
        "source": trace.metadata["source"],
        "rows": {t.name: n for t in TABLES if (n := len(getattr(trace, t.name)))},
        "self_ns": int(s["self_ns"].sum()),
        "counted": round(float(trace.counters["value"].sum()), 3),
        "allocated": int(trace.allocations["bytes"].sum()),
        "slices_crc32": zlib.crc32(content),
        "tables": {name: len(table) for name, table in sorted(tables.items())},
        "report": {issue.code: issue.count for issue in sorted(trace.report, key=lambda issue: issue.code)},
    }


def _zipped(content: bytes) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("unknown", content)
    return out.getvalue()


def _two_members(content: bytes) -> bytes:
    half = len(content) // 2
    return gzip.compress(content[:half], 1) + gzip.compress(content[half:], 1)


def _zstd(content: bytes) -> bytes:
    return bytes(pa.compress(content, "zstd"))


PACKINGS: Final[dict[str, Callable[[bytes], bytes]]] = {
    "plain": bytes,
    "gzip": lambda content: gzip.compress(content, 1),
    "gzip of two members": _two_members,
    "zstd": _zstd,
    "zip": _zipped,
}


def unpacked(sample: str) -> bytes:
    """The content of a sample without its gzip or xz, where that is whole."""
    raw = path_of(sample).read_bytes()
    if raw.startswith(b"\xfd7zXZ\x00"):
        return lzma.decompress(raw)
    if not raw.startswith(b"\x1f\x8b"):
        return raw
    try:
        return gzip.decompress(raw)
    except EOFError:
        return raw
