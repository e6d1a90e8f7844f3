"""Open a recording of our own format."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from ...errors import FormatError, NotebookProfError
from ...trace.builder import TraceBuilder
from ...trace.intervals import Window, as_ints
from ...trace.layout import FIRST
from ...trace.report import ImportReport
from ...trace.schema import SLICES, STEPS, TABLES
from ...trace.source_lines import Nested, source_lines
from ...trace.trace import Trace
from ..base import MmapReader, Probe
from .frames import Frames, check_rows
from .storage import Storage, is_ours, starts_like_ours


class NativeReader(MmapReader):
    """What ``trace.save`` and ``p.save`` write: a folder or a zip of Parquet files and ``metadata.json``."""

    name: ClassVar[str] = "native"
    priority: ClassVar[int] = 1000
    describes: ClassVar[str] = "our own format: a folder (.nbprof) or a zip (.nbprof.zip) of Parquet tables"

    def recognises(self, probe: Probe) -> bool:
        """Return whether the bytes are a zip of ours."""
        return starts_like_ours(probe.head)

    def holds(self, path: Path) -> bool:
        """Return whether the folder or file is ours, finished or not."""
        return is_ours(path)

    def read(self, data: bytes, builder: TraceBuilder) -> None:
        """Refuse: it is opened where it lies."""
        raise FormatError(
            "a saved recording is inside another compressed file, or no longer where it was: unpack it, and "
            "open the .nbprof folder or the .nbprof.zip"
        )

    def open(self, path: Path, max_bytes: int | None = None) -> Trace:
        """Open the recording.

        Parameters
        ----------
        path : Path
        max_bytes : int, optional
            How much memory the tables may take.

        Returns
        -------
        Trace
            Equal to the one that was saved.

        Raises
        ------
        FormatError
            If it was not written to its end, was changed since, or is of a version that is not read.
        """
        if not is_ours(path):
            raise FormatError(
                f"{path.name}: this is not a recording that notebook_prof saved (there is no {FIRST!r} of "
                "ours in it): leave format= out to find out what it is"
            )
        try:
            return _trace(Storage(path, max_bytes))
        except NotebookProfError as error:
            raise FormatError(f"{path.name}: {error}") from error
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise FormatError(f"{path.name}: the recording is damaged: {error}") from error


def _trace(storage: Storage) -> Trace:
    frames = Frames(storage)
    tables = {table.name: frames.read(table.name) for table in TABLES}
    steps = tables[STEPS.name]
    if "loop" not in steps:  # older versions knew one loop
        tables[STEPS.name] = STEPS.frame(
            {**{name: steps[name] for name in steps}, "loop": np.zeros(len(steps), np.int32)}
        )
    if "line" not in tables[SLICES.name]:  # older versions gave lines to Python slices only
        tables[SLICES.name] = _with_lines(tables)
    check_rows(tables)
    metadata = frames.values.decode(storage.content["metadata"])
    if not isinstance(metadata, dict):
        raise FormatError("the metadata is damaged")
    start, end = storage.content["span"]
    return Trace(
        tables,
        metadata=metadata,
        report=_report(storage.content["report"]),
        span=Window(int(start), int(end)),
    )


def _with_lines(tables: dict[str, pd.DataFrame]) -> pd.DataFrame:
    slices, flows, tracks = tables["slices"], tables["flows"], tables["tracks"]
    ts = slices["ts"].to_numpy()
    nested = Nested(
        as_ints(slices["name"].cat.codes.to_numpy()),
        as_ints(slices["stack"].to_numpy(np.int64, na_value=-1)),
        as_ints(slices["track"].to_numpy()),
        as_ints(slices["parent"].to_numpy(np.int64, na_value=-1)),
        ts,
        ts + slices["dur"].to_numpy(),
        (slices["category"] == "python").to_numpy(),
        (slices["phase"] == "backward").fillna(False).to_numpy(bool),
    )
    launches = flows[(flows["kind"] == "launch").to_numpy()]
    lines = source_lines(
        nested,
        [str(name) for name in slices["name"].cat.categories],
        tables["stacks"].sort_values("stack")["file"].tolist(),
        tracks.sort_values("track")["pid"].to_numpy(np.int64, na_value=-1),
        (launches["src"].to_numpy(), launches["dst"].to_numpy()),
    )
    words = pd.Index(lines.values, dtype="object")
    return slices.assign(line=pd.Categorical.from_codes(lines.codes, categories=words))


def _report(issues: list[dict[str, Any]]) -> ImportReport:
    report = ImportReport()
    for issue in issues:
        texts = {name: str(issue[name]) for name in ("code", "severity", "example", "effect", "advice")}
        report.add(**texts, count=int(issue["count"]))  # type: ignore[arg-type]
    return report
