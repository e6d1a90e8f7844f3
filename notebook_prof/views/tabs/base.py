"""What a tab of the dashboard holds: a Panel of parts, or the sentence why there is none."""

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
"""So many rows of a table are sent at most."""

Patch: TypeAlias = Mapping[str, Any]
"""Values by dimension (and ``focus``) as `Selection.apply_patch` takes them; None removes a clause."""


@dataclass(frozen=True, slots=True)
class Note:
    """A sentence or two.

    Attributes
    ----------
    text : str
        Shown as text, never as markup.
    warns : bool
        Whether it says that something is not as it should be.
    """

    text: str
    warns: bool = False


@dataclass(frozen=True, slots=True)
class Fact:
    """One number or word with what it is: ``Fact("peak memory", "1.2 GiB", "GPU 0")``."""

    label: str
    value: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class Facts:
    """Facts beside each other."""

    facts: tuple[Fact, ...]


@dataclass(frozen=True, slots=True)
class Card:
    """Something found: its title, a badge (what it is worth), sentences, and what a click selects."""

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
    """A table; the page sorts it, writes its numbers with units and lets rows be chosen.

    Attributes
    ----------
    frame : DataFrame
        In the order to show. At most `MOST_ROWS` rows are sent, and the page says how many there are.
    units : mapping of str to str
        Unit of a column: ``ns bytes share count number text name code instant flops flops/s bytes/s``; a
        ``name`` of slices is written short, with its colour, and whole in the tooltip. Those left out go
        by the name: ``_ns``, ``_bytes``, ``_share``, ``ts`` and ``_ts`` (an instant), whole numbers, other
        numbers, text. A unit of ``""`` hides the column.
    heads : mapping of str to str
        Text above a column; the name without its unit unless given.
    select : sequence of (Patch or None), optional
        What a click on each row selects; of rows that are not sent it is not needed.
    title : str
    call : str
        How to get all of it in Python: ``p.steps.trace()``.
    bars : sequence of str
        Columns with a bar behind the number, all on one scale; shares have bars of their own.
    """

    frame: pd.DataFrame
    units: Mapping[str, str] = field(default_factory=dict)
    heads: Mapping[str, str] = field(default_factory=dict)
    select: Sequence[Patch | None] | None = None
    title: str = ""
    call: str = ""
    bars: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Source(Table):
    """Source code, a row a line in the order of the file, with what each took.

    Attributes
    ----------
    file : str
        As `lines` calls it.
    trends : ndarray of float64, shape (rows, n), or None
        Time of each line over the steps, in n groups of steps.
    folded : bool
        Whether only the title is shown until it is opened.

    Notes
    -----
    `frame` has the columns ``line`` and ``text``; where numbers of lines are left out, the page tells how
    many. All rows are sent.
    """

    file: str = ""
    trends: npt.NDArray[np.float64] | None = None
    folded: bool = False


@dataclass(frozen=True, slots=True)
class Tree(Table):
    """A table whose rows are opened and closed; a click on one selects what has its name.

    Attributes
    ----------
    weights : sequence of str
        Columns by which rows are kept where there are too many: a row is as heavy as the largest of its
        shares of them. None may be larger than that of the row which it is below.

    Notes
    -----
    `frame` has the columns ``parent`` (Int64, row of `frame`), ``depth``, ``name`` and ``category``, each
    row before those below it. Of what is left out, a row says how many there are and what they took of the
    first of the weights.
    """

    weights: Sequence[str] = ("total_ns",)


@dataclass(frozen=True, slots=True)
class Stack(Table):
    """One path of calls, the outermost first, beside the part above it.

    Notes
    -----
    `frame` has the columns ``name``, ``category`` and those that are shown. A `Tree` above it shows here
    the heaviest path through the row that is chosen.
    """


@dataclass(frozen=True, slots=True)
class Picture:
    """A Bokeh figure.

    Attributes
    ----------
    figure : figure
        A source of its glyphs may have a column ``select``: the JSON of a `Patch` that a click sets, or
        empty. What its hover tools would show (``@{column}`` only), the page shows in its own tooltip.
    title : str
    legend : mapping of str to str
        Colour (``#RRGGBB``) by text, written above the picture.
    """

    figure: figure
    title: str = ""
    legend: Mapping[str, str] = field(default_factory=dict)


Part: TypeAlias = Note | Facts | Cards | Table | Source | Tree | Stack | Picture


@dataclass(frozen=True, slots=True)
class Panel:
    """What a tab shows.

    Attributes
    ----------
    title : str
    parts : tuple of Part
        From top to bottom.
    under : tuple of str
        Dimensions of the selection that it follows; the page tells which others it does not.
    follows_own : bool
        Whether it is worked out anew for what is selected in it, which else does not filter it.
    """

    title: str
    parts: tuple[Part, ...]
    under: tuple[str, ...] = ()
    follows_own: bool = False


@dataclass(frozen=True, slots=True)
class Absent:
    """Nothing to show: a sentence why, and what to do."""

    sentence: str


@dataclass(frozen=True, slots=True)
class Choice:
    """What of a tab the user chooses in its head; the page remembers it for all tabs that have it.

    Attributes
    ----------
    key : str
        The argument of `Tab.build`.
    label : str
    options : mapping of str to str
        Text by value, at first the first one; none where it is on or off, at first off.
    """

    key: str
    label: str
    options: Mapping[str, str] = field(default_factory=dict)

    def value(self, text: object) -> str | bool:
        """Return what a page has sent as the argument: the default where that is none of the options."""
        if not self.options:
            return text == "on"
        return text if isinstance(text, str) and text in self.options else next(iter(self.options))

    @property
    def texts(self) -> tuple[str, ...]:
        """What a page may send."""
        return tuple(self.options) or ("", "on")


Build: TypeAlias = Callable[..., Panel | Absent]
"""A pure function of the trace, of the selection as `Selection.to_state` gives it, and of its choices."""


def _always(trace: Trace) -> str:
    return ""


@dataclass(frozen=True, slots=True)
class Tab:
    """A tab of the rail.

    Attributes
    ----------
    title : str
        On the rail: one short word.
    build : Build
        Called when the tab is looked at, and again when the selection changes while it is.
    missing : callable
        Trace → a sentence where nothing was recorded for it (the tab is grey then), else empty. Called
        for every display: it must be quick.
    place : int
        The rail is sorted by it.
    summary : str
        One line for the documentation.
    calls : tuple of str
        The same in Python, for the documentation.
    plots : mapping of str to str
        Names on ``p.plot``, and the function of `notebook_prof.views.figures` whose options each takes; empty
        where it takes none. A plot of the tab's own name gives all its pictures unless it has options.
    choices : tuple of Choice
        Shown in the head of the tab, in this order.
    """

    title: str
    build: Build
    missing: Callable[[Trace], str] = _always
    place: int = 1000
    summary: str = ""
    calls: tuple[str, ...] = ()
    plots: Mapping[str, str] = field(default_factory=dict)
    choices: tuple[Choice, ...] = ()

    def chosen(self, choices: Mapping[str, Any]) -> dict[str, str | bool]:
        """Return the choices that a page sent as arguments of `build`."""
        return {choice.key: choice.value(choices.get(choice.key)) for choice in self.choices}


def pictures(*drawn: Drawn | None) -> tuple[Picture, ...]:
    """Make pictures of what could be drawn, in this order."""
    return tuple(Picture(one.figure, one.title, one.legend) for one in drawn if one is not None)
