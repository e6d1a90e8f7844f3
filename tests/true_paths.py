"""The true critical path of simulated programs: each stretch knows its cause."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(eq=False)
class Stretch:
    """A piece of work of a thread or a stream, and what had to end before it."""

    resource: str
    name: str
    start: int
    end: int
    category: str = "operator"
    # the instant at which the binding cause ended, and the cause
    cause: tuple[int, Stretch] | None = None
    launcher: Stretch | None = None
    # for the first stretch of a hand-over: when, and the last work of the other thread
    begun_by: tuple[int, Stretch | None] | None = None
    wait: dict[str, Any] = field(default_factory=dict)  # the recorder's attributes of a wait
    rank: int = 0
    # for a collective in which a rank waited: when the last rank arrived, and that one's collective
    met: tuple[int, Stretch] | None = None


def followed_back(
    one: Stretch, t: int, runs: Sequence[Mapping[str, list[Stretch]]]
) -> list[tuple[int, int, int, str, str]]:
    """Follow causes from an instant of a stretch to the start of its run or another."""
    # `runs` has by rank the stretches of each thread and stream, by name. Pieces are begin, end, rank, thread
    # or stream, and the charged name; none is empty. A collective on a device begins with an arrival of 1 ns:
    # the path goes through that of the last rank.
    out: list[tuple[int, int, int, str, str]] = []

    def charge(begin: int, name: str, where: str) -> None:
        out.append((begin, t, one.rank, where, name))

    while True:
        if one.met is not None and t > one.met[0]:
            at, cause = one.met
            at += one.resource[0] == "s"
            charge(at, one.name, one.resource)
            t, one = at, cause
            continue
        if one.cause is not None and one.resource[0] == "s":
            at, cause = one.cause
            charge(one.start, one.name, one.resource)
            t = one.start
            gap = one.name if cause.category == "launch" or cause.resource != one.resource else ""
            charge(at, gap, one.resource)
            t, one = at, cause
            continue
        if one.cause is not None and one.cause[0] <= t:  # otherwise the path left this call before it blocked
            at, cause = one.cause
            charge(at, one.name, one.resource)
            t, one = at, cause
            continue
        charge(one.start, one.name, one.resource)
        t = one.start
        if one.begun_by is not None:
            at, cause_or_none = one.begun_by
            charge(at, "", one.resource)
            t = at
            if cause_or_none is None:
                break
            one = cause_or_none
            continue
        own = runs[one.rank][one.resource]
        position = own.index(one)
        if not position:
            break
        one = own[position - 1]
    charge(0, "", "main")
    return [piece for piece in out if piece[0] < piece[1]]
