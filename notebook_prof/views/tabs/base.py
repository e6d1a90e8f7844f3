"""The content of a tab: a Panel of parts, or a sentence that says why there is none."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pandas as pd

from ...trace import Trace

if TYPE_CHECKING:
    from bokeh.plotting import figure

    from ..figures.drawn import Drawn

MOST_ROWS: Final = 300
"""Maximum rows of a table sent to the page."""

Patch: TypeAlias = Mapping[str, Any]
"""Values by dimension (and ``focus``) as `Selection.apply_patch` takes them; None removes a clause."""


@dataclass(frozen=True, slots=True)
class Note:
    """A sentence or two, shown as text, never as markup."""

    text: str
    # Whether it reports a problem.
    warns: bool = False


@dataclass(frozen=True, slots=True)
class Fact:
    """A number or word with its label: ``Fact("peak memory", "1.2 GiB", "GPU 0")``."""

    label: str
    value: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class Facts:
    """Facts beside each other."""

    facts: tuple[Fact, ...]


@dataclass(frozen=True, slots=True)
class Card:
    """A finding: title, badge (its value), sentences, and what a click selects."""

    title: str
    badge: str
    lines: tuple[str, ...]
    select: Patch | None = None


@dataclass(frozen=True, slots=True)
class Cards:
    """Cards below each other."""

    cards: tuple[Card, ...]


@dataclass(frozen=True, slots=True)
class Table:
    """A table; the page sorts it, writes its numbers with units and lets users choose rows."""

    # In display order. At most `MOST_ROWS` rows are sent, and the page shows the total number.
    frame: pd.DataFrame
    # ``ns bytes share count number text name code instant flops flops/s bytes/s`` by column; ``""`` hides the
    # column. A ``name`` of slices is written short, with its colour, and in full in the tooltip. Other units
    # follow from the column's name (``_ns``, ``_bytes``, ``_share``, ``ts`` and ``_ts`` for an instant) and
    # dtype.
    units: Mapping[str, str] = field(default_factory=dict)
    # Heading of a column; by default its name without the unit.
    heads: Mapping[str, str] = field(default_factory=dict)
    # What a click on each of the sent rows selects.
    select: Sequence[Patch | None] | None = None
    title: str = ""
    # The call that returns the table in Python, such as ``p.steps.trace()``; rows have the same labels there.
    call: str = ""
    # The analysis behind the call, which gets the clauses of the selection, too.
    of: Callable[..., Any] | None = None
    # Columns with a bar behind the number, all on the same scale; shares have their own bars.
    bars: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class SourceTable(Table):
    """Source code, one row per line in the order of the file; all rows are sent."""

    # `frame` has the columns ``line`` and ``text``; the page shows how many lines a gap skips.

    # As in `lines`.
    file: str = ""
    # Time of each line over the steps, in n groups of steps.
    trends: npt.NDArray[np.float64] | None = None
    # Whether only the title is shown until the user opens it.
    folded: bool = False


@dataclass(frozen=True, slots=True)
class TreeTable(Table):
    """A table with rows to open and close; a click on one selects its name."""

    # `frame` has the columns ``parent`` (Int64, row of `frame`), ``depth``, ``name`` and ``category``, each
    # row before those below it. A row shows how many rows below it were left out, and the sum of their first
    # weight.

    # Columns that determine which rows are kept: a row is as heavy as its largest share of them, and no
    # heavier than the row above it.
    weights: Sequence[str] = ("total_ns",)


@dataclass(frozen=True, slots=True)
class StackTable(Table):
    """A path of calls, outermost first, next to the part above it."""

    # `frame` has the columns ``name``, ``category`` and those shown. Below a `TreeTable`, it shows the
    # heaviest path through the chosen row.


@dataclass(frozen=True, slots=True)
class Picture:
    """A Bokeh figure."""

    # A source may have a column ``select``: the JSON of a `Patch` that a click sets, or empty. The page shows
    # hover tools (``@{column}`` only) in its own tooltip.
    figure: figure
    title: str = ""
    # Colour (``#RRGGBB``) by text, written above the picture.
    legend: Mapping[str, str] = field(default_factory=dict)


Part: TypeAlias = Note | Facts | Cards | Table | SourceTable | TreeTable | StackTable | Picture


@dataclass(frozen=True, slots=True)
class Panel:
    """The content of a tab, from top to bottom."""

    title: str
    parts: tuple[Part, ...]
    # Dimensions of the selection that the tab follows; the page names the others.
    under: tuple[str, ...] = ()
    # Whether a selection made in the tab also filters it.
    follows_own: bool = False


@dataclass(frozen=True, slots=True)
class Absent:
    """Nothing to show: a sentence that says why, and what to do."""

    sentence: str


@dataclass(frozen=True, slots=True)
class Choice:
    """A choice in the header of a tab; the page remembers it for all tabs that offer it."""

    # The argument of `Tab.build`.
    key: str
    label: str
    # Text by value, the first is the default; empty for on and off, with off as the default.
    options: Mapping[str, str] = field(default_factory=dict)

    def value(self, text: object) -> str | bool:
        """Return a page's text as the argument; the default if it is not an option."""
        if not self.options:
            return text == "on"
        return text if isinstance(text, str) and text in self.options else next(iter(self.options))

    @property
    def texts(self) -> tuple[str, ...]:
        """Texts that a page may send."""
        return tuple(self.options) or ("", "on")


Build: TypeAlias = Callable[..., Panel | Absent]
"""A pure function of the trace, of the selection as `Selection.to_state` gives it, and of its choices."""


def _always(trace: Trace) -> str:
    return ""


@dataclass(frozen=True, slots=True)
class Tab:
    """A tab of the rail."""

    # On the rail: one short word.
    title: str
    # Called when the tab is shown, and when the selection changes while it is shown.
    build: Build
    # Trace → a sentence if nothing was recorded for the tab (which is then grey), else empty. Called for
    # every display, so it must be quick.
    missing: Callable[[Trace], str] = _always
    # Sort key on the rail.
    place: int = 1000
    # One line for the documentation.
    summary: str = ""
    # The same in Python, for the documentation.
    calls: tuple[str, ...] = ()
    # Names on ``p.plot``, and for each the function of `notebook_prof.views.figures` with its options, or
    # empty. A plot with the tab's own name has all its pictures unless it has options.
    plots: Mapping[str, str] = field(default_factory=dict)
    # Shown in the header of the tab, in this order.
    choices: tuple[Choice, ...] = ()

    def chosen(self, choices: Mapping[str, Any]) -> dict[str, str | bool]:
        """Return the choices sent by a page as arguments of `build`."""
        return {choice.key: choice.value(choices.get(choice.key)) for choice in self.choices}


def pictures(*drawn: Drawn | None) -> tuple[Picture, ...]:
    """Make pictures of the figures that are not None, in this order."""
    return tuple(Picture(one.figure, one.title, one.legend) for one in drawn if one is not None)
