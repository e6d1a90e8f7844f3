"""Source code with the time of each line, in total and by step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
import pandas as pd

from ...errors import SelectionError, nearest
from ...trace import Trace
from ...trace.schema import Table
from ...trace.source_lines import SOURCE_FILES, text_lines
from ..scope import WindowLike, bounds, length_within
from .lines import CELL, COLUMNS, lines, lines_of_slices


def annotated_source(trace: Trace, file: str = CELL, *, window: WindowLike = None) -> pd.DataFrame:
    """Return every line of a source file, in order, with its row of `lines`.

    Parameters
    ----------
    file : str
        ``cell``, or a file of `lines`; the last part of its path is enough if it is unique.
    window : (int, int), optional
        Half-open, in ns; times are cut exactly at its edges.

    Returns
    -------
    DataFrame
        In the order of the file, with the columns of `lines`. Lines that did not run have zeros. If the text
        was not recorded, only lines that ran have rows; without recorded lines there are no rows.

    Raises
    ------
    SelectionError
        If no line of this file was recorded.

    Examples
    --------
    >>> from notebook_prof import TraceBuilder
    >>> b = TraceBuilder(metadata={"cell_source": "%%profile\\nx = load()\\n\\nfit(x)"})
    >>> names = ["cell:2  x = load()", "cell:4  fit(x)"]
    >>> _ = b.slices(ts=[0, 10], dur=[10, 90], name=names, category="python", track=b.track("main"))
    >>> annotated_source(b.seal())[["line", "text", "total_ns"]].values.tolist()
    [[1, '%%profile', 0], [2, 'x = load()', 10], [3, '', 0], [4, 'fit(x)', 90]]
    """
    table = lines(trace, window=window)
    if not len(table):
        return COLUMNS.empty()
    name = _file(file, sorted({*table["file"], *source_texts(trace)}))
    return annotate(table[table["file"] == name], name, source_texts(trace).get(name, ()))


def annotate(table: pd.DataFrame, file: str, text: Sequence[str]) -> pd.DataFrame:
    """Return the rows of `annotated_source` for a file, from its rows of `lines` and its text (or None)."""
    ran = table.set_index("line")
    rows = ran.reindex(sorted({*range(1, len(text) + 1), *ran.index}))
    texts = pd.Series(list(text), range(1, len(text) + 1), dtype="str").reindex(rows.index)
    written = {"file": [file] * len(rows), "line": rows.index, "text": texts.fillna(rows["text"])}
    exact = rows["exact"].eq(True).fillna(False)
    columns = {name: rows[name].fillna(0) for name in COLUMNS.names if name in rows.select_dtypes("number")}
    sampled = ran["samples"].notna().any()
    samples = columns["samples"] if sampled else rows["samples"]
    columns |= {**written, "count": rows["count"], "samples": samples, "exact": exact}
    return COLUMNS.frame({name: pd.Series(columns[name]).reset_index(drop=True) for name in COLUMNS.names})


def source_texts(trace: Trace) -> dict[str, tuple[str, ...]]:
    """Return the lines of each recorded source by its file, as `lines` names it; the cell comes first."""
    texts: dict[str, tuple[str, ...]] = {}
    cell = trace.metadata.get("cell_source")
    if isinstance(cell, str):
        texts[CELL] = cell_lines(cell)
    files = trace.metadata.get(SOURCE_FILES)
    if isinstance(files, Mapping):
        texts |= {str(name): tuple(text_lines(text)) for name, text in files.items() if isinstance(text, str)}
    return texts


def cell_lines(source: str) -> tuple[str, ...]:
    """Return a cell's lines as the interpreter counts them: IPython drops empty lines at the top."""
    written = text_lines(source)
    first = next((i for i, text in enumerate(written) if text.strip()), len(written))
    return tuple(written[first:])


def _file(file: str, recorded: list[str]) -> str:
    if file in recorded:
        return file
    ends = [name for name in recorded if name.replace("\\", "/").endswith(f"/{file}")]
    if len(ends) == 1:
        return ends[0]
    if ends:
        raise SelectionError(f"several files end with {file!r}: {', '.join(ends)}")
    raise SelectionError(f"no line of {file!r} was recorded: {nearest(file, recorded)}")


STEP_COLUMNS: Final = Table.of("line_steps", "file:str line:int64 loop:int64 step:int64 total_ns:int64")


def line_steps(trace: Trace, *, window: WindowLike = None) -> pd.DataFrame:
    """Return the time of every line of the user's source in every step.

    Parameters
    ----------
    window : (int, int), optional
        Half-open, in ns; times are cut exactly at its edges.

    Returns
    -------
    DataFrame
        Lines in the order of `lines`, each with all steps; empty without lines or steps.

        - ``file`` str, ``line`` int64: as in `lines`; ``loop``, ``step`` int64: as in `steps`;
        - ``total_ns`` int64: time in the step during which the line or its callees ran, in any thread.

    Examples
    --------
    >>> from notebook_prof import TraceBuilder
    >>> b = TraceBuilder()
    >>> _ = b.slices(ts=0, dur=15, name="cell:2  run()", category="python", track=b.track("main"))
    >>> b.steps(step=[0, 1], ts=[0, 10], dur=[10, 10], source="mark")
    >>> line_steps(b.seal())[["line", "step", "total_ns"]].values.tolist()
    [[2, 0, 10], [2, 1, 5]]
    """
    table, scope, row = lines_of_slices(trace, window)
    steps = trace.steps
    if not len(table) or not len(steps):
        return STEP_COLUMNS.empty()
    # a loop over the lines of source, of which there are few
    by_line = [own for _, own in pd.Series(np.arange(len(row))).groupby(row)]
    spent = [length_within(scope.open(own.to_numpy()), *bounds(steps)) for own in by_line]
    return STEP_COLUMNS.frame(
        {
            "file": np.repeat(table["file"].to_numpy(), len(steps)),
            "line": np.repeat(table["line"].to_numpy(), len(steps)),
            "loop": np.tile(steps["loop"].to_numpy(), len(table)),
            "step": np.tile(steps["step"].to_numpy(), len(table)),
            "total_ns": np.concatenate(spent),
        }
    )
