"""Colours and labels: the same name, phase or category looks the same in every view.

All are light enough for black text (contrast at least 4.5). The first hues for names are Paul Tol's *light*
scheme, the phases those of Okabe and Ito; both are safe for colour-blind eyes.
Sources: https://personal.sros.nl/~pault/ and https://jfly.uni-koeln.de/color/.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import Final
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt
import pandas as pd

from ..analysis.name_labels import kernel_names, name_classes, names_of, with_classes
from ..labels import (
    MOST_LABELLED,
    STEP_MARKS,
    family,
    family_code,
    merged_label,
    merged_name,
    short_names,
    variants,
)
from ..trace import Trace
from ..trace.arrays import BoolArray
from .cached import locked_cached_property

NEUTRAL: Final = "#C9C9C9"
"""Colour of annotations, which are not work but mark the work below them."""
NAMES: Final = (
    *["#77AADD", "#EE8866", "#44BB99", "#EEDD88", "#FFAABB", "#99DDFF", "#BBCC33", "#C3A5E0"],
    *["#AAAA00", "#5FA8A0", "#D9A066", "#8FB8DE", "#E07B91", "#9BC995", "#C9B79C", "#B0A8D9"],
    *["#F2B880", "#7CC9A9", "#D69AC0", "#8AA6E8", "#DCC95E", "#74C5D6", "#DB9393", "#A9D08E"],
    NEUTRAL,
)
"""Colours of names, chosen by a hash of the family; the last is for annotations."""
_DISTINCT: Final = 12
"""Number of families with the most self time whose colours differ."""

HUES: Final = len(NAMES) - 1
"""Number of colours for names that are not annotations."""
UNKNOWN: Final = "#B4B4B4"
"""Colour of slices without phase, module or step."""

PHASES: Final = {
    "data": "#E69F00",
    "forward": "#56B4E9",
    "backward": "#CC79A7",
    "optimizer": "#35B58B",
    "communication": "#F0E442",
    "evaluation": "#9A8FD9",
    "other": "#B4B4B4",
}

CATEGORIES: Final = {
    "operator": "#77AADD",
    "kernel": "#EE8866",
    "launch": "#C9B79C",
    "memcpy": "#44BB99",
    "memset": "#99DDFF",
    "collective": "#F0E442",
    "python": "#BBCC33",
    "annotation": NEUTRAL,
    "module": "#C3A5E0",
    "io": "#E69F00",
    "sync": "#FFAABB",
    "overhead": "#AAAA00",
}

ACCOUNT: Final = {
    "steps": ("#77AADD", "#44BB99", "#EE8866", "#C3A5E0", "#EEDD88", "#99DDFF"),
    "code": ("#D9CDB8", "#C4B597", "#E6DDCD"),
}
"""Colours in the account: one for each loop of steps, neutral tones for statements; the rest is grey."""

RESOURCE: Final = {"device": "#EE8866", "host": "#77AADD"}
"""Colours of busy time in the overview."""
STEP: Final = "#D5D9E0"
COUNTER: Final = "#5FA8A0"
MARK: Final = "#D55E00"
"""Colour of marks: peaks, ceilings, links of the slice in focus."""
MEMORY: Final = {"allocated": "#56B4E9", "reserved": "#999999", "selected": "#CC6677", "peak": MARK}
STATUS: Final = {"bad": "#C62828", "warning": "#B26A00"}
"""Colours of problems only. They are dark, since text and lines are drawn with them."""
IDLE: Final = ("#B4B4B4", "#D5D9E0", "#999999")
"""Colours of idle time."""


def name_colours(families: Iterable[str], annotations: npt.NDArray[np.bool_]) -> npt.NDArray[np.uint8]:
    """Return the position in `NAMES` for every family, the same in every recording and process."""
    codes = np.fromiter((family_code(text) % HUES for text in families), np.uint8)
    # ranges that only mark get the last colour
    codes[annotations[: len(codes)]] = HUES
    return np.asarray(codes, np.uint8)


def rgb(colour: str) -> tuple[int, int, int]:
    """Return red, green and blue (0–255) of ``#RRGGBB``."""
    return int(colour[1:3], 16), int(colour[3:5], 16), int(colour[5:7], 16)


class NameStyles:
    """Label and colour of every name of a Trace; use `name_styles`."""

    def __init__(self, trace: Trace) -> None:
        self.names = [str(name) for name in trace.slices["name"].astype("category").cat.categories]
        self._slices = trace.slices
        self._kernels = kernel_names(trace).tolist()
        self._classes = name_classes(trace)
        self._annotations = _annotation_names(trace, self.names)

    @locked_cached_property
    def labels(self) -> list[str]:
        """The label of every name; no two are the same."""
        return short_names(with_classes(self.names, self._classes), self._kernels)

    @locked_cached_property
    def codes(self) -> npt.NDArray[np.uint8]:
        """The position in `NAMES` of every name: by its family's hash, unless a heavy family has that one."""
        codes = name_colours(self.families, self._annotations)
        coloured = np.flatnonzero(codes < HUES)
        family, words = pd.factorize(np.array(self.families, object)[coloured])
        name = self._slices["name"].astype("category").cat.codes.to_numpy().astype(np.intp)
        own_ns = np.bincount(name + 1, self._slices["self_ns"].to_numpy(), len(self.names) + 1)[1:]
        spent = np.bincount(family, own_ns[coloured], len(words))
        heaviest = np.argsort(-spent, kind="stable")[:_DISTINCT].tolist()
        hue = np.zeros(len(words), np.uint8)
        hue[family] = codes[coloured]
        # in the order of hashes, so that two recordings with the same heavy families colour them alike
        heaviest.sort(key=lambda k: family_code(words[k]))
        first_of = {int(hue[k]): k for k in reversed(heaviest)}
        free = iter(sorted(set(range(HUES)) - first_of.keys()))
        for k in heaviest:
            if first_of[int(hue[k])] != k:
                hue[k] = next(free)
        codes[coloured] = hue[family]
        return codes

    @locked_cached_property
    def families(self) -> list[str]:
        """The family of each name; see `notebook_prof.labels.family`."""
        first = zip(self.names[:MOST_LABELLED], self._kernels[:MOST_LABELLED], strict=True)
        families = (self._classes.get(name) or family(name, kernel) for name, kernel in first)
        return [*families, *self.names[MOST_LABELLED:]]

    @locked_cached_property
    def _code_of(self) -> dict[str, int]:
        return {name: code for code, name in enumerate(self.names)}

    def label(self, name: str) -> str:
        """Return the label of a name; for a name without slices, the shortest form."""
        code = self._code_of.get(name)
        if code is None:
            return self._merged_labels.get(name) or variants(name)[0]
        return self.labels[code]

    @locked_cached_property
    def _merged_labels(self) -> dict[str, str]:
        """The labels of names under which several names are counted."""
        merged = ((merged_name(name), label) for name, label in zip(self.names, self.labels, strict=True))
        return {name: merged_label(name, label) for name, label in merged if name not in self._code_of}

    def colour(self, name: str) -> str:
        """Return the colour (``#RRGGBB``) of a name, with or without slices."""
        code = self._code_of.get(name)
        if code is not None:
            return NAMES[int(self.codes[code])]
        if name.startswith(tuple(mark.rstrip("#") for mark in STEP_MARKS)):
            return NEUTRAL
        return NAMES[int(name_colours([family(name)], np.zeros(1, bool))[0])]


def _annotation_names(trace: Trace, names: list[str]) -> BoolArray:
    """Return a mask of the names that only annotate the work below them."""
    category = trace.slices["category"].astype("category").cat
    marks = np.append(category.categories == "annotation", False)[category.codes.to_numpy()]
    only_marks = names_of(trace, marks) & ~names_of(trace, ~marks)
    steps = np.array([name.startswith(STEP_MARKS) for name in names], bool)
    return np.asarray(only_marks | steps)


_styles: Final[WeakKeyDictionary[Trace, NameStyles]] = WeakKeyDictionary()
_lock: Final = threading.Lock()


def name_styles(trace: Trace) -> NameStyles:
    """Return labels and colours of a Trace's names: the same object for every view."""
    with _lock:
        if trace not in _styles:
            _styles[trace] = NameStyles(trace)
        return _styles[trace]
