"""Tabs in a report: computed over the whole recording, and small enough for a file."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Final

from ...selection import Selection
from ...service.packing import Answer, pack
from ...service.palette import name_styles
from ...trace import Trace
from ..tab_answers import packed
from ..tabs import TABS, Panel, Tab
from .html_file import deflated_json

MOST_ROWS: Final = 50
MOST_BYTES: Final = 14_000
"""Limit of a tab in the file, as base64; pictures that do not fit are left out, the largest first."""


def embedded(trace: Trace) -> dict[str, dict[str, str]]:
    """Return every tab for the whole recording: ``{"missing": sentence}`` or ``{"data": text}``."""
    # The text is base64 of a deflated JSON object ``{"content", "data"}`` for ``js/src/report/tabs.js``; a
    # tab with choices has a text for each combination, by `choice_key`.
    return {name: _embedded(name, tab, trace) for name, tab in TABS.items()}


def choice_key(choices: Mapping[str, str]) -> str:
    """Return the key of a tab's text for these choices; ``data`` if there are none."""
    return " ".join(["data", *(f"{key}={value}" for key, value in sorted(choices.items()))])


def _embedded(name: str, tab: Tab, trace: Trace) -> dict[str, str]:
    if missing := tab.missing(trace):
        return {"missing": missing}
    texts: dict[str, str] = {}
    keys = [choice.key for choice in tab.choices]
    try:
        for values in itertools.product(*(choice.texts for choice in tab.choices)):
            choices = dict(zip(keys, values, strict=True))
            made = tab.build(trace, Selection().to_state(), **tab.chosen(choices))
            if isinstance(made, Panel):
                answer = packed(name, made, name_styles(trace), MOST_ROWS)
            elif not texts:
                return {"missing": made.sentence}
            else:
                answer = pack({"name": name, "absent": made.sentence}, {})
            texts[choice_key(choices)] = _text_that_fits(answer)
    except Exception as error:  # one tab must not cost the file
        return {"missing": f"This tab could not be computed ({type(error).__name__}: {error})."}
    return texts


def _text_that_fits(answer: Answer) -> str:
    parts = answer.content.get("parts", [])
    while len(text := answer_text(answer)) > MOST_BYTES:
        drawn = [i for i, part in enumerate(parts) if part["kind"] == "picture"]
        if not drawn:
            break
        largest = max(drawn, key=lambda i: len(parts[i]["document"]))
        note = (
            f"{parts[largest]['title']}: too large for this file; open the profile in a notebook to see it."
        )
        parts[largest] = {"kind": "note", "text": note, "warns": False}
    return text


def answer_text(answer: Answer) -> str:
    """Return an answer as base64 of a deflated JSON object ``{"content", "data"}``."""
    columns = answer.arrays().items()
    data = {key: [None if x != x else _rounded(x) for x in values.tolist()] for key, values in columns}
    content = {key: value for key, value in answer.content.items() if key != "columns"}
    return deflated_json({"content": content, "data": data})


def _rounded(value: float) -> float | int:
    return int(value) if value == int(value) else float(f"{value:.7g}")
