"""Questions of a page; the kernel decodes each with these types.

A field without a default is required; one that may be `UNSET` is optional. Our page always sends every other
field; the defaults are for other clients. `js/src/types/questions.d.ts` says the same to the page, and
`answers.d.ts` beside it declares what comes back.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Final, Literal

import msgspec
from msgspec import UNSET, UnsetType

from ..errors import NotebookProfError


class PageQuestion(msgspec.Struct, kw_only=True):
    """A question of a page, with its number and the selection that it refers to."""

    t: ClassVar[str]


class CurveRequest(PageQuestion):
    """A stretch of a curve: from `a` to `b` in ns, `px` wide."""

    a: float
    b: float
    px: float = 1000


class MetaRequest(PageQuestion):
    """The facts of the trace; doubts may follow later, since they take seconds for a long recording."""

    t = "meta"
    doubts: Literal["later"] | UnsetType = UNSET


class DoubtsRequest(PageQuestion):
    """Doubts by name."""

    t = "doubts"


class NamesRequest(PageQuestion):
    """Names from number `start` on, as many as fit into a message."""

    t = "names"
    start: float = 0


class AccountRequest(PageQuestion):
    """The account of the cell."""

    t = "account"


class TimelineRequest(CurveRequest):
    """The slices of some rows in a window; `picture` is the number of the page's current picture."""

    t = "timeline"
    rows: list[float] = []
    places: list[float] = []
    zoom: float = 1
    tint: str = "name"
    max_quads: float = 4000
    find: str = ""
    picture: float | UnsetType = UNSET


class LegendRequest(PageQuestion):
    """What the colours of the timeline mean."""

    t = "legend"
    tint: str = "name"


class StripRequest(PageQuestion):
    """The whole recording in one strip."""

    t = "strip"
    px: float = 1000
    tint: str = "name"
    picture: float | UnsetType = UNSET


class MemoryRequest(CurveRequest):
    """The memory of a device, or of the first one with any."""

    t = "memory"
    device: float | None = None


class CountersRequest(CurveRequest):
    """The counters with these keys."""

    t = "counters"
    tracks: list[float] = []


class PhasesRequest(PageQuestion):
    """Time by step and phase."""

    t = "phases"


class TableRequest(PageQuestion):
    """A page of the table; `by_side` sorts by times of the host, and kernels by times of the device."""

    t = "table"
    by: str = "name"
    scope: str = "all"
    filter: str = ""
    sort: str = "self_ns"
    waits: bool = True
    descending: bool | UnsetType = UNSET
    by_side: bool | UnsetType = UNSET
    start: float = 0
    top: float = 200


class DetailRequest(PageQuestion):
    """The slice with this row."""

    t = "detail"
    id: float | None = None


class WhyRequest(PageQuestion):
    """Why a slice (by row), or a track (by key) at an instant, does what it does."""

    t = "why"
    id: float | UnsetType = UNSET
    track: float | UnsetType = UNSET
    at: float | UnsetType = UNSET


class PathRequest(PageQuestion):
    """The critical path of the steps, or of the whole recording."""

    t = "path"


class WhatIfRequest(PageQuestion):
    """The duration of steps if the selected work took `factor` times as long."""

    t = "what_if"
    factor: float


class FindRequest(PageQuestion):
    """The next (`by` = 1) or previous (-1) slice with the same name and track as the one in row `id`."""

    t = "find"
    id: float = -1
    by: float = 1


class NeighbourRequest(PageQuestion):
    """The neighbour of the slice in row `id`."""

    t = "neighbour"
    id: float = -1
    to: str = "next"
    row: float = 0
    at: float = 0


class SearchRequest(PageQuestion):
    """Slices that match this text, from slice `id` or time `at` on."""

    t = "search"
    text: str = ""
    px: float = 1000
    id: float | UnsetType | None = UNSET
    by: float | UnsetType = UNSET
    at: float | UnsetType = UNSET


class CallsRequest(PageQuestion):
    """Calls of `names` in a step (None: all), and the position of slice `id` or the slice at `place`."""

    t = "calls"
    names: list[str]
    step: float | None
    device: bool
    id: float | UnsetType = UNSET
    place: float | UnsetType = UNSET


class PanelRequest(PageQuestion):
    """A tab with these choices, not filtered by the dimensions that it set itself."""

    t = "panel"
    name: str = ""
    own: list[str] = []
    choices: dict[str, str] = {}


class RecordingRequest(PageQuestion):
    """The columns of the recording, so that the page can answer by itself."""

    t = "recording"


class RanksRequest(PageQuestion):
    """The content of the ranks' figures."""

    t = "ranks"


class SelectedRequest(PageQuestion):
    """The number of selected slices in each row before, in and after ``[a, b)``, ns."""

    t = "selected"
    a: float
    b: float


QUESTIONS: Final[Mapping[str, type[PageQuestion]]] = {
    declared.t: declared
    for declared in (*PageQuestion.__subclasses__(), *CurveRequest.__subclasses__())
    if declared is not CurveRequest
}
"""Questions by name."""


def decode(request: Mapping[str, Any]) -> dict[str, Any]:
    """Return a question checked against its declared types, with defaults; unknown ones pass unchanged."""
    declared = QUESTIONS.get(str(request.get("t")))
    if declared is None:
        return dict(request)
    try:
        read = msgspec.convert(request, declared, strict=False)
    except msgspec.ValidationError as error:
        raise NotebookProfError(f"the question {declared.t!r} is invalid: {error}") from error
    return {**request, **msgspec.to_builtins(read)}  # without fields that are `UNSET`
