"""Tabs of the dashboard: their parts as JSON, and the numbers of their tables as columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt
import pandas as pd
from pandas.api import types

from ..errors import check_option
from ..selection.frames import ARGUMENTS
from ..service.packing import Answer, pack, plain_patch
from ..service.palette import NameStyles
from ..service.store import ViewStore
from .tabs import TABS, Absent, Cards, Facts, Note, Panel, Picture, SourceTable, StackTable, Table, TreeTable
from .tabs.analyses import arguments
from .tabs.base import MOST_ROWS, Patch

if TYPE_CHECKING:
    from bokeh.models import UIElement

TEXTS: Final = ("text", "code", "name")
"""Units of text; code is written as in an editor, a name is short and in the colour of its family."""
_TIMES: Final = ("ns", "delta", "instant")
UNITS: Final = (*_TIMES, "bytes", "share", "count", "number", *TEXTS, "flops", "flops/s", "bytes/s")
"""Units known to the page; a ``delta`` is a signed time."""

_SUFFIXES: Final = {"_ns": "ns", "_bytes": "bytes", "_share": "share", "_ts": "instant", "_flops": "flops"}
_WHOLE: Final = {"ts": "instant", "bytes": "bytes", "share": "share", "flops": "flops", "dur": "ns"}
_HEADS: Final = {"ts": "at", "dur": "duration"}


def unit_of(frame: pd.DataFrame, column: str, units: Mapping[str, str] | None = None) -> str:
    """Return the unit of a column: as given, or from its name and dtype; empty for a hidden column."""
    if units and column in units:
        return units[column]
    dtype = frame[column].dtype
    if types.is_bool_dtype(dtype) or not types.is_numeric_dtype(dtype):
        return "text"
    if column in _WHOLE:
        return _WHOLE[column]
    for suffix, unit in _SUFFIXES.items():
        if column.endswith(suffix):
            return unit
    if column.startswith("bytes_"):
        return "bytes"
    return "count" if types.is_integer_dtype(dtype) else "number"


def head_of(column: str) -> str:
    """Return the heading of a column: its name without the unit."""
    if column in _HEADS:
        return _HEADS[column]
    for suffix in _SUFFIXES:
        if column.endswith(suffix) and suffix != "_share":
            return column.removesuffix(suffix).replace("_", " ")
    return column.replace("_", " ")


_TREE_ROWS: Final = 4
"""Factor for the rows of a tree, most of which are closed."""
_LONGEST_CELL: Final = 600
_NUMERIC: Final = frozenset(UNITS) - frozenset(TEXTS)


def panel(store: ViewStore, state: Mapping[str, Any], request: Mapping[str, Any]) -> Answer:
    """Return the tab ``request["name"]`` under the selection; OptionError for an unknown tab."""
    # ``own``: dimensions that this tab itself set last, which do not filter it; ``top``: rows per table
    # (300). `notebook_prof.views.tabs.base` and the messages describe the parts.
    name = str(request.get("name"))
    check_option("no tab", name, TABS)
    own = set(request.get("own") or ())
    tab = TABS[name]
    left = {k: None if k in own else v for k, v in state.items()}
    made = tab.build(store.trace, left, **tab.chosen(request.get("choices") or {}))
    if isinstance(made, Absent):
        return pack({"name": name, "absent": made.sentence}, {})
    return packed(name, made, store.name_styles, min(int(request.get("top", MOST_ROWS)), MOST_ROWS), left)


def packed(
    name: str, made: Panel, styles: NameStyles, most: int = MOST_ROWS, state: Patch | None = None
) -> Answer:
    """Return a Panel, made for the state of a selection, as an Answer; see `panel`."""
    columns: dict[str, npt.NDArray[Any]] = {}
    parts: list[dict[str, Any]] = []
    for i, part in enumerate(made.parts):
        if isinstance(part, SourceTable):
            parts.append(_source(part, i, columns, styles))
        elif isinstance(part, TreeTable):
            parts.append(_tree(part, i, _TREE_ROWS * most, columns, styles))
        elif isinstance(part, StackTable):
            parts.append({**_table(part, i, most, columns, styles), "kind": "stack"})
        elif isinstance(part, Table):
            parts.append(_table(part, i, most, columns, styles))
        elif isinstance(part, Picture):
            legend = [[text, colour] for text, colour in part.legend.items()]
            document = _document(part.figure)
            parts.append({"kind": "picture", "title": part.title, "legend": legend, "document": document})
        elif isinstance(part, Cards):
            cards = [{**asdict(card), "select": plain_patch(card.select)} for card in part.cards]
            parts.append({"kind": "cards", "cards": cards})
        elif isinstance(part, Facts):
            parts.append({"kind": "facts", **asdict(part)})
        elif isinstance(part, Note):
            parts.append({"kind": "note", **asdict(part)})
        if isinstance(part, Table):
            parts[-1]["call"] = call_of(part, state or {})
    return pack(
        {
            "name": name,
            "title": made.title,
            "under": list(made.under),
            "follows_own": made.follows_own,
            "parts": parts,
        },
        columns,
    )


def call_of(part: Table, state: Mapping[str, Any]) -> str:
    """Return the call of a table with the clauses of the selection that it was made for."""
    if part.of is None:
        return part.call
    given = {key: tuple(v) if key == "window" else v for key, v in arguments(part.of, state).items()}
    # a selected line is only marked in its table
    left = {key for key in ARGUMENTS if key != "line" and key in part.frame} - set(given)
    rows = [f"{key}={state[key]!r}" for key in ARGUMENTS if key in left and state.get(key) is not None]
    texts = [f"{key}={value!r}" for key, value in given.items()]
    if rows:
        texts.append(f"where=nbp.Selection({', '.join(rows)})")
    name, _, rest = part.call.partition("(")
    return f"{name}({', '.join([*texts, rest]) if rest[0] != ')' else ', '.join(texts) + rest}"


def _table(
    part: Table, number: int, most: int, columns: dict[str, npt.NDArray[Any]], styles: NameStyles
) -> dict[str, Any]:
    frame = part.frame.head(most)
    headings, texts, names = [], {}, {}
    for key in map(str, frame.columns):
        unit = unit_of(frame, key, part.units)
        if not unit or (len(frame) and frame[key].isna().all()):
            continue
        headings.append([key, part.heads.get(key) or head_of(key), unit])
        if unit in _NUMERIC:
            columns[f"{number}.{key}"] = frame[key].to_numpy(dtype=np.float64, na_value=np.nan)
        else:
            words = ["" if pd.isna(value) else str(value) for value in frame[key]]
            texts[key] = [word[:_LONGEST_CELL] for word in words]
            if unit == "name":
                names[key] = {
                    "labels": [styles.label(word)[:_LONGEST_CELL] if word else "" for word in words],
                    "colours": [styles.colour(word) if word else "" for word in words],
                }
    select = None if part.select is None else [plain_patch(patch) for patch in list(part.select)[:most]]
    labels = None if frame.index.equals(pd.RangeIndex(len(frame))) else frame.index.tolist()
    return {
        "kind": "table",
        "title": part.title,
        "call": part.call,
        "labels": labels,
        "heads": headings,
        "texts": texts,
        "names": names,
        "bars": list(part.bars),
        "size": len(frame),
        "rows": len(part.frame),
        "select": select,
    }


def _source(
    part: SourceTable, number: int, columns: dict[str, npt.NDArray[Any]], styles: NameStyles
) -> dict[str, Any]:
    packed = _table(part, number, len(part.frame), columns, styles)
    steps = 0 if part.trends is None else part.trends.shape[1]
    if part.trends is not None:
        columns[f"{number}.trend"] = part.trends.ravel()
    return {**packed, "kind": "source", "file": part.file, "steps": steps, "folded": part.folded}


def _tree(
    part: TreeTable, number: int, most: int, columns: dict[str, npt.NDArray[Any]], styles: NameStyles
) -> dict[str, Any]:
    """Pack the heaviest rows of a tree; the parents of a row are never lighter, so they are included."""
    frame, weight = part.frame, part.weights[0]
    heavy = np.zeros(len(frame))
    for name in part.weights:
        heavy = np.maximum(heavy, frame[name].to_numpy() / max(float(frame[name].max()), 1.0))
    kept = np.sort(np.lexsort((np.arange(len(frame)), -heavy))[:most])
    number_of = np.full(len(frame) + 1, -1)
    number_of[kept] = np.arange(len(kept))
    parent = frame["parent"].to_numpy(dtype=np.int64, na_value=-1)
    left = np.ones(len(frame), dtype=bool)
    left[kept] = False
    # the last entry is for roots
    above = np.where(parent < 0, len(kept), number_of[parent])[left]
    above, took = above[above >= 0], frame[weight].to_numpy()[left][above >= 0]
    more = np.bincount(above, minlength=len(kept) + 1)
    more_weight = np.bincount(above, took, minlength=len(kept) + 1)
    shown = frame.iloc[kept].drop(columns=["parent", "depth"])
    table = Table(shown, part.units, part.heads, title=part.title, call=part.call, bars=part.bars)
    packed = _table(table, number, len(kept), columns, styles)
    columns[f"{number}.parent"] = number_of[parent[kept]].astype(np.float64)
    columns[f"{number}.depth"] = frame["depth"].to_numpy(dtype=np.float64)[kept]
    columns[f"{number}.more"] = more[:-1].astype(np.float64)
    columns[f"{number}.more_weight"] = more_weight[:-1].astype(np.float64)
    return {
        **packed,
        "kind": "tree",
        "rows": len(frame),
        "weight": weight,
        "more_roots": [int(more[-1]), int(more_weight[-1])],
    }


def _document(figure: UIElement) -> str:
    from bokeh.core.json_encoder import serialize_json  # a tab without pictures need not wait for Bokeh
    from bokeh.document import Document

    document = Document()
    document.add_root(figure)
    return str(serialize_json(document.to_json(deferred=False)))
