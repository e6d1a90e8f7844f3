"""The advice tab: one card per rule, with its gain and remedy; a click selects its evidence."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any, Final

from ... import analysis
from ...selection import filtered
from ...selection.frames import ARGUMENTS
from ...trace import Trace
from ...units import format_bytes, format_count, format_ns, format_share
from .analyses import followed
from .base import Absent, Card, Cards, Note, Panel, Tab

_LONGEST_CALL: Final = 120


def advice(trace: Trace, state: Mapping[str, Any]) -> Panel | Absent:
    """Show cards of `analysis.advice`, largest gain first, and why other rules were not checked."""
    table = filtered(analysis.advice, trace, state)
    under = followed(analysis.advice)
    withheld = table.attrs.get("withheld", {})
    notes = tuple(
        Note(f"Left out: {str(rule).replace('-', ' ')}. {str(why)[:1].upper()}{str(why)[1:]}.")
        for rule, why in withheld.items()
    )
    if not len(table):
        return Panel("Advice", (*notes, Note("No rule applies to this recording.")), under)
    note = Note(
        "Each gain is an estimate that was checked on a measured program; 'at most' marks an upper bound. "
        "Shares are of the time without imports, compilations and other one-time work. Gains are not "
        "independent of each other. A click on a card selects its evidence."
    )
    cards = map(_card, table.to_dict("records"))
    return Panel("Advice", (note, Cards(tuple(cards)), *notes), under)


def _card(row: Mapping[Hashable, Any]) -> Card:
    gain = f"up to {format_bytes(row['gain_bytes'])}"
    if row["gain_ns"]:
        about = "at most" if row["bound"] else "about"
        gain = f"{about} {format_ns(row['gain_ns'])} · {format_share(row['gain_share'])}"
    count = int(row["count"])
    lines = [str(row["finding"]), f"Try: {row['remedy']}"]
    arguments = ", ".join(f"{name}={value!r}" for name, value in row["what_if"].items())
    if 0 < len(arguments) <= _LONGEST_CALL:
        lines.append(f"By the critical path: p.what_if({arguments}).")
    if count:
        line = f", most of their time for {row['place']}" if row["place"] and count > 1 else ""
        lines.append(f"Evidence: {format_count(count)} {'slice' if count == 1 else 'slices'}{line}.")
    return Card(str(row["rule"]).replace("-", " "), gain, tuple(lines), _evidence(row))


def _evidence(row: Mapping[Hashable, Any]) -> dict[str, Any] | None:
    """Return exactly the evidence; the window stays, since the advice is about it."""
    if not row["select"] and not len(row["rows"]):
        return None
    patch: dict[str, Any] = dict.fromkeys(name for name in ARGUMENTS if name != "window")
    patch |= row["select"]
    if len(row["rows"]):
        patch["focus"] = int(row["rows"][0])
    return patch


TAB: Final = Tab(
    "Advice",
    advice,
    place=120,
    summary="What to try, by gain; a click on a card selects its evidence.",
    calls=("p.advice()",),
)
