"""Step times if the selected work took longer, or less time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ... import analysis
from ...analysis.critical_path.classes import IN_WORDS
from ...errors import NotebookProfError
from ...trace import Trace
from ..packing import Answer, pack
from ..store import ViewStore

MOST_SLICES: Final = 2_000_000
"""Replays of more take seconds for each place of a slider."""
_SCALED: Final = ("name", "line", "phase", "category")
_UNSCALED: Final = ("track", "rank", "group")
_SELECT: Final = (
    "Select a name, a line, a phase or a category first: a row of the table, or a slice by double-click."
)


def what_if(store: ViewStore, state: Mapping[str, Any], request: Mapping[str, Any]) -> Answer:
    """Return `notebook_prof.analysis.what_if` for the selected work and a factor."""
    return pack(what_if_content(store.trace, state, float(request.get("factor") or 0)), {})


def what_if_content(trace: Trace, state: Mapping[str, Any], factor: float) -> dict[str, Any]:
    """Return the answer for one factor: a sentence, the Python call, and the path's classes before and after
    in ns.
    """
    arguments = arguments_of(state, factor)
    if isinstance(arguments, str):
        return {"found": False, "text": arguments}
    call = f"p.what_if({', '.join(f'{name}={value!r}' for name, value in arguments.items())})"
    if len(trace.slices) > MOST_SLICES:
        text = f"More than {MOST_SLICES:,} slices take seconds to replay: ask in Python, {call}."
        return {"found": False, "text": text}
    try:
        answer = analysis.what_if(trace, **arguments)
    except NotebookProfError as error:
        return {"found": False, "text": f"{str(error)[:1].upper()}{str(error)[1:]}."}
    count = max(len(answer.steps), 1)
    classes = [] if answer.refused else answer.classes[["class", "before_ns", "after_ns"]].values.tolist()
    return {
        "found": True,
        "text": str(answer),
        "call": call,
        "refused": answer.refused,
        "classes": [[IN_WORDS[name], before / count, after / count] for name, before, after in classes],
    }


def arguments_of(state: Mapping[str, Any], factor: float) -> dict[str, Any] | str:
    """Return the arguments of `what_if` for the selection, or why there are none."""
    scaled = [dimension for dimension in _SCALED if state.get(dimension)]
    others = [dimension for dimension in _UNSCALED if state.get(dimension)]
    if not scaled:
        return _SELECT
    if len(scaled) > 1:
        return f"Select by one of {' and '.join(scaled)}: what_if takes one factor for each."
    if others:
        return f"A replay changes what is selected on all tracks: remove the {others[0]} from the selection."
    dimension = scaled[0]
    factors = dict.fromkeys(map(str, state[dimension]), factor)
    if dimension == "category":
        factors = {f"category={name}": factor for name in factors}
    out: dict[str, Any] = {"scale" if dimension in ("name", "category") else dimension: factors}
    if state.get("step"):
        out["step"] = [int(number) for number in state["step"]]
    if state.get("window"):
        out["window"] = tuple(int(edge) for edge in state["window"])
    return out
