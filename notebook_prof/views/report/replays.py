"""Replays that lie in a report: what if what takes longest took less time, at a few factors."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from ...analysis.grouping import merged_names
from ...analysis.scope import sharing
from ...analysis.time.host_states import waiting_names
from ...labels import STEP_MARKS
from ...service.answers.what_if import what_if_content
from ...trace import Trace
from .html_file import deflated_json

FACTORS: Final = (0.0, 0.5, 0.75)
"""Places of the slider."""
MOST_TARGETS: Final = {"name": 5, "line": 3, "phase": 3}
"""By dimension of a selection: of how many a file holds replays."""
MOST_SLICES: Final = 50_000
"""Replays of more take longer than all the rest of a file."""
_LEAST_SHARE: Final = 0.01
_IN_NOTEBOOK: Final = "open the recording in a notebook, and ask p.what_if(…) there."


@sharing
def replays(trace: Trace) -> dict[str, Any]:
    """Return the answers of `what_if` that a file holds, of the whole recording.

    Returns
    -------
    dict
        ``factors``: places of the slider; ``answers``: base64 of a deflated JSON object with, by dimension
        and by `target_key`, an answer a factor (`what_if_content`); ``left``: a sentence for what else is
        asked. Without replays ``factors`` and ``answers`` are empty. For ``js/src/report/what_if.js``.
    """
    if len(trace.slices) > MOST_SLICES:
        left = f"Replays of more than {MOST_SLICES:,} slices are not in this file: {_IN_NOTEBOOK}"
        return {"factors": [], "answers": "", "left": left}
    try:
        answers = {
            dimension: {
                target_key(values): [what_if_content(trace, {dimension: values}, one) for one in FACTORS]
                for values in longest(trace, dimension, most)
            }
            for dimension, most in MOST_TARGETS.items()
        }
    except Exception as error:  # replays must not cost the file
        left = f"Replays could not be worked out ({type(error).__name__}: {error}): {_IN_NOTEBOOK}"
        return {"factors": [], "answers": "", "left": left}
    if not any(answers.values()):
        return {"factors": [], "answers": "", "left": f"This file holds no replays: {_IN_NOTEBOOK}"}
    left = f"This file holds replays of {_counted(answers)} that take longest: for others {_IN_NOTEBOOK}"
    return {"factors": list(FACTORS), "answers": deflated_json(answers), "left": left}


def target_key(values: list[str]) -> str:
    """Return the name of what is selected by these values of one dimension; their order does not count.

    Examples
    --------
    >>> target_key(["b", "a"])
    'a\\nb'
    """
    return "\n".join(sorted(values))


def longest(trace: Trace, dimension: str, most: int) -> list[list[str]]:
    """Return the values of a dimension whose slices own the most time: what a click in the page selects.

    Parameters
    ----------
    trace : Trace
    dimension : {"name", "line", "phase"}
    most : int

    Returns
    -------
    list of list of str
        At most so many, the longest first; none of under 1 % of what all have together. Names that tables
        count as one (`labels.merged_name`) are together. Names of calls that only wait and of the ranges
        around steps are left out: a replay gives the former, and the latter hold everything.

    Examples
    --------
    >>> from notebook_prof.testing import draw
    >>> longest(draw("main: [mm   ][relu][add]"), "name", 2)
    [['mm'], ['relu']]
    """
    column, own = trace.slices[dimension].cat, trace.slices["self_ns"].to_numpy()
    values = [str(value) for value in column.categories]
    group = merged_names(values) if dimension == "name" else np.append(np.arange(len(values)), -1)
    total = np.bincount(group[column.codes.to_numpy()] + 1, own, minlength=len(values) + 1)[1:]
    if dimension == "name":
        aside = waiting_names(trace) | np.array([value.startswith(STEP_MARKS) for value in values], bool)
        total[group[:-1][aside]] = 0
    least = max(_LEAST_SHARE * float(total.sum()), 1.0)
    first = [code for code in np.argsort(-total, kind="stable")[:most] if total[code] >= least]
    return [[values[code] for code in np.flatnonzero(group[:-1] == one)] for one in first]


def _counted(answers: dict[str, dict[str, Any]]) -> str:
    texts = []
    for dimension, targets in answers.items():
        if count := len(targets):
            texts.append(f"the {dimension}" if count == 1 else f"the {count} {dimension}s")
    return " and ".join([", ".join(texts[:-1]), texts[-1]]) if len(texts) > 1 else "".join(texts)
