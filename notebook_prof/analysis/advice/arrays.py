"""Rules for pandas and NumPy code that handles one element, row or copy at a time."""

# Each pattern is recognised by the library functions that a user's line calls (`line_calls`). A remedy saves
# the share `SAVED` of the time of that function or line, as measured by ``benchmarks/advice.py``; without a
# measurement the gain is a bound.

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pandas as pd

from ...trace import inherit
from ..scope import ints
from ..source.annotated import source_texts
from ..source.frames import frames
from ..source.line_calls import module_of
from ..source.lines import line_slices, line_times
from ..verdict.claims import Source, cite_ns, say
from .context import WORTH, Advice, AdviceContext, evidence

SAVED: Final = {
    "pandas-apply-rows": 0.97,
    "pandas-iterrows": 0.95,
    "pandas-python-function": 0.9,
    "pandas-scalar-access": 0.97,
    "object-column": 0.9,
    "growing-array": 0.95,
    "repeated-copies": 0.9,
    "numpy-vectorize": 0.9,
}
_OFTEN: Final = 3
"""A line seen in at least this many separate stretches of time counts as running in a loop."""
_AXIS: Final = re.compile(r"\.apply\(.*axis\s*=\s*(?:1|['\"]columns['\"])")
_GROWS: Final = re.compile(
    r"(?P<name>[A-Za-z_][\w.]*(?:\[[^\]]*\])?)\s*=\s*(?:[\w.]+\.)?"
    r"(?:append|concatenate|concat|vstack|hstack|column_stack|row_stack|insert)\((?P<given>.*)"
)
_LOOP_OF_ROWS: Final = re.compile(r"for\s+(?P<names>.+?)\s+in\s+.*\.iterrows\(\)")
_CHAINED: Final = re.compile(r"\w\[(?:[^\[\]]|\[[^\[\]]*\])*\]\s*\[\s*\[?\s*['\"]")
_COPY: Final = re.compile(r"\.copy\((?!\s*deep\s*=\s*False)")


def apply_rows(run: AdviceContext) -> Advice | None:
    """Find `DataFrame.apply`, which calls Python for every row."""
    calls = run.line_calls
    by_row = _calls_of(calls, "pandas.core.apply", "series_generator")
    whole = _calls_of(calls, "pandas.core.frame", "apply")
    keys = set(zip(by_row["file"], by_row["line"], strict=True))
    texts = source_texts(run.trace)  # line names are cut; samples of a short cell may miss the generator
    keep = [
        (file, line) in keys or _AXIS.search((*texts.get(file, ())[line - 1 : line], text)[0]) is not None
        for file, line, text in zip(whole["file"], whole["line"], whole["text"], strict=True)
    ]
    return _finding(
        run,
        "pandas-apply-rows",
        whole[np.array(keep, dtype=bool)],
        "calls a Python function for every row",
        "Compute with whole columns, as in df['a'] * df['b'], np.where and Series.str; or build the column "
        "from a list over zip(df['a'], df['b']).",
    )


def iterate_rows(run: AdviceContext) -> Advice | None:
    """Find `iterrows`, which makes a Series of every row and looks up a label on each access."""
    loops = _calls_of(run.line_calls, "pandas.core.frame", "iterrows")
    if not len(loops):
        return None
    loop = loops.iloc[0]
    row = _LOOP_OF_ROWS.search(loop["text"])
    name = row["names"].split(",")[-1].strip(" ()") if row else ""
    reads = _calls_of(run.line_calls, "pandas.core.series", "__getitem__")
    reads = reads[(reads["file"] == loop["file"]) & (reads["line"] >= loop["line"])]
    named = reads["text"].str.contains(rf"\b{re.escape(name)}\s*\[", regex=True) & bool(name)
    return _finding(
        run,
        "pandas-iterrows",
        pd.concat([loops.head(1), reads[named.to_numpy(bool)]]),
        "makes a Series of every row",
        "Compute with whole columns; or loop with `itertuples` or over zip(df['a'], df['b']), which make "
        "no Series.",
    )


def python_function(run: AdviceContext) -> Advice | None:
    """Find `Series.map`, `Series.apply` or `GroupBy.apply`, which call Python for each element or group."""
    of_series = _called_in(run.line_calls, "pandas.core.series", "map", "apply")
    grouped = _called_in(run.line_calls, "pandas.core.groupby", "apply", "transform", "aggregate", "agg")
    calls = run.line_calls[of_series | grouped]  # longest first
    if not len(calls) or not _calls_back(run, ("pandas.core.series", "pandas.core.groupby")):
        return None
    return _finding(
        run,
        "pandas-python-function",
        calls.head(1),
        "calls a Python function for every element or group",
        "Compute with the whole column: arithmetic, np.where, Series.str and Series.dt, a dict for "
        "Series.map and names of built-in functions for groups, as in .agg('mean').",
    )


def scalar_access(run: AdviceContext) -> Advice | None:
    """Find loops that read a Series or DataFrame element by element."""
    single = _calls_of(run.line_calls, "pandas.core.indexing", "__getitem__")
    single = single[
        (single["count"] >= _OFTEN)
        & single["text"].str.contains(r"\.(?:i?loc|i?at)\[[^:\]]*\]", regex=True)
        & ~single["text"].str.contains(r"\.i?loc\[[^\]]*(?:[<>=]=?|\[)", regex=True)
        & ~single["text"].str.contains(r"\.(?:i?loc|i?at)\[.*\]\s*[-+*/]?=(?!=)", regex=True)
        & ~single["text"].str.contains(r"\blambda\b", regex=True)  # pandas runs this loop
    ]
    return _finding(
        run,
        "pandas-scalar-access",
        _whole_lines(run, single.head(1)),
        "reads elements of a Series or DataFrame one by one",
        "Take the column once before the loop, as in values = df['a'].to_numpy() (or .tolist() for a loop in "
        "Python), or compute with the whole column.",
        table="lines",
    )


def object_column(run: AdviceContext) -> Advice | None:
    """Find columns of Python objects, which pandas compares, groups or searches one object at a time."""
    keep = _called_in(run.line_calls, "pandas.core.ops.array_ops", "comp_method_OBJECT_ARRAY")
    for module in ("pandas.core.strings.object_array", "pandas.core.arrays.numpy_"):
        keep = keep | _called_in(run.line_calls, module, "_str_map")
    calls = run.line_calls[keep]
    return _finding(
        run,
        "object-column",
        calls.head(1),
        "works on a column of Python objects, one by one",
        "Give the column a type once: astype('category') where few values repeat, astype('str') (or "
        "'string[pyarrow]') for text, pd.to_numeric for numbers.",
    )


def growing_array(run: AdviceContext) -> Advice | None:
    """Find arrays or tables that are copied again and again to append a little."""
    calls = run.line_calls
    found = [_GROWS.search(text) for text in calls["text"]]  # lines like ``x = append(x, y)``
    own = [rf"(?<![\w.]){re.escape(match['name'])}(?!\w)" if match else "" for match in found]
    grows = np.array(
        [bool(match and re.search(name, match["given"])) for match, name in zip(found, own, strict=True)],
        bool,
    )
    numpy = _called_in(calls, "numpy", "append", "concatenate", "vstack", "hstack", "insert", "column_stack")
    joining = numpy | _called_in(calls, "pandas.core.reshape.concat", "concat")
    enlarges = _called_in(calls, "pandas.core.indexing", "_setitem_with_indexer_missing")
    growing = calls[((joining & grows) | enlarges) & (calls["count"] >= _OFTEN).to_numpy()]
    return _finding(
        run,
        "growing-array",
        _whole_lines(run, growing.head(1)),
        "copies everything collected so far to add a little",
        "Collect the pieces in a list and join them once after the loop: np.concatenate(pieces), "
        "pd.concat(pieces), pd.DataFrame(rows); or make the array as large as it will be before.",
        table="lines",
    )


def repeated_copies(run: AdviceContext) -> Advice | None:
    """Find tables that are copied again and again."""
    copies = _calls_of(run.line_calls, "pandas.core.generic", "copy")
    keep = (copies["count"] >= _OFTEN) & copies["text"].str.contains(_COPY.pattern, regex=True)
    return _finding(
        run,
        "repeated-copies",
        copies[keep].head(1),
        "copies a whole table each time",
        "Copy once before the loop, copy only the columns that change, or df.copy(deep=False): with pandas 3 "
        "a change then copies only what it touches.",
    )


def chained_indexing(run: AdviceContext) -> Advice | None:
    """Find rows of a table that are copied to get a single column, as in ``df[df['a'] > 2]['b']``."""
    copies = _calls_of(run.line_calls, "pandas.core.frame", "_getitem_bool_array")
    # The gain is a bound: the column's rows must still be selected.
    return _finding(
        run,
        "pandas-chained-indexing",
        copies[copies["text"].str.contains(_CHAINED.pattern, regex=True)].head(1),
        "copies the chosen rows of every column to take one",
        "Take rows and column at once: df.loc[df['a'] > 2, 'b']. Assigning to the chained form "
        "changes only a copy.",
    )


def vectorized_function(run: AdviceContext) -> Advice | None:
    """Find `np.vectorize` and `np.apply_along_axis`, which loop over a Python function."""
    calls = _calls_of(run.line_calls, "numpy", "_vectorize_call", "apply_along_axis")
    return _finding(
        run,
        "numpy-vectorize",
        calls.head(1),
        "is a loop that calls a Python function for every element",
        "Write the function with whole arrays: arithmetic, np.where or np.select for its branches, axis= of "
        "NumPy's own functions.",
    )


def _finding(
    run: AdviceContext, rule: str, calls: pd.DataFrame, does: str, remedy: str, table: str = "line_calls"
) -> Advice | None:
    """Return advice on the line of the first (longest) of these calls, with the time of all of them."""
    spent = int(calls["total_ns"].sum())
    if not len(calls) or spent < WORTH * run.total_ns:
        return None
    first = calls.iloc[0]
    location = f"{first['file']}:{int(first['line'])}"
    columns = ["file", "line"] if table == "lines" else ["file", "line", "module", "function"]
    took = Source(table, "total_ns", {name: first[name] for name in columns}, run.asking)
    own = int(first["total_ns"])
    return Advice(
        rule,
        say(f"`{first['text']}` ({location}) {does}: ", cite_ns(own, took), run.share(own, took), "."),
        remedy,
        gain_ns=min(int(spent * SAVED.get(rule, 1)), run.total_ns),
        bound=rule not in SAVED,
        place=location,
        **line_evidence(run, first),
    )


def _called_in(calls: pd.DataFrame, module: str, *functions: str) -> np.ndarray[Any, np.dtype[np.bool_]]:
    if not len(calls):  # the usual case; comparing texts takes a millisecond even if there are none
        return np.zeros(0, dtype=bool)
    inside = (calls["module"] == module) | calls["module"].str.startswith(f"{module}.")
    last = calls["function"].str.rsplit(".", n=1).str[-1]
    return np.asarray((inside & last.isin(functions)).to_numpy(), dtype=bool)


def _calls_of(calls: pd.DataFrame, module: str, *functions: str) -> pd.DataFrame:
    """Return the calls of these functions of a module or its submodules, longest first."""
    return calls[_called_in(calls, module, *functions)]


def _whole_lines(run: AdviceContext, calls: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of `line_times` for the lines of these calls."""
    if not len(calls):
        return calls
    table = line_times(run.trace, **run.asking)
    return calls[["file", "line"]].merge(table, on=["file", "line"])


def _calls_back(run: AdviceContext, modules: tuple[str, ...]) -> bool:
    """Return whether a function of these modules calls back into any of the user's lines."""
    where = frames(run.trace)
    module_of_file = {file: module_of(str(file)) for file in set(where.file)}
    inside = np.array([module_of_file[file].startswith(modules) for file in where.file], bool)[where.code]
    scope = line_slices(run.trace, run.whole_window)
    is_line = np.zeros(len(inside), dtype=bool)
    is_line[scope.rows] = True
    below = inherit(ints(run.trace.slices["parent"]), np.where(inside & ~is_line, 1, -1))
    return bool((below[scope.rows] == 1).any())


def line_evidence(run: AdviceContext, line: pd.Series[Any]) -> dict[str, Any]:
    """Return `rows` and `count` of a line's slices, and `select`, their names."""
    scope = line_slices(run.trace, run.whole_window)
    ending = f":{int(line['line'])}  {line['text']}"
    names = [word for word in map(str, scope.slices["name"].cat.categories) if word.endswith(ending)]
    of_line = scope.among("name", names)
    return {"select": {"name": names} if of_line.any() else {}, **evidence(scope, of_line)}


RULES: Final[tuple[Callable[[AdviceContext], Advice | None], ...]] = (
    apply_rows,
    iterate_rows,
    python_function,
    scalar_access,
    object_column,
    growing_array,
    repeated_copies,
    chained_indexing,
    vectorized_function,
)
