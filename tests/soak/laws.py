"""What has to hold of the measurements of one kernel, from its tenth round on: nothing grows."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Final

FIRST: Final = 10
"""The round from which on nothing may grow: caches and arenas of the allocator have filled by then."""
LEAST: Final = 9
"""Rounds from `FIRST` on that are needed to judge: three in each third."""
MOST_MB: Final = 0.1
"""By how much memory may grow with every profile that was made and closed."""


@dataclass(frozen=True)
class Measured:
    """One kernel after one round."""

    number: int  # counted from 1; 0 is before the first round
    profiles: int  # recordings begun so far
    memory_bytes: int = 0  # anonymous, after a collection and with what was freed given back
    # of Python's allocator and of malloc: they tell a growth of objects and of C code from free memory in
    # pieces too small to give back
    blocks: int = 0
    used_bytes: int = 0
    counts: Mapping[str, int] = field(default_factory=dict)  # threads, descriptors and all that is counted
    state: Mapping[str, str] = field(default_factory=dict)  # handlers, hooks: as before the first recording
    details: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # what a count consists of
    actions: tuple[str, ...] = ()


@dataclass(frozen=True)
class Broken:
    """A law that does not hold, with the rounds that show it."""

    law: str
    sentence: str
    rounds: tuple[Measured, ...] = ()

    def table(self) -> str:
        """The rounds in question, what they had more than the one before, and what was done in them."""
        lines = [f"{self.law}: {self.sentence}"]
        for one in self.rounds:
            lines.append(f"  round {one.number:3} {self._value(one)}  {'; '.join(one.actions)}")
            lines += [f"            now: {text}" for text in one.details.get(self.law, ())]
        return "\n".join(lines)

    def _value(self, one: Measured) -> str:
        if self.law != "memory":
            return str(one.counts.get(self.law, ""))
        return f"{one.memory_bytes / 1e6:.2f} MB, malloc {one.used_bytes / 1e6:.2f} MB, {one.blocks} blocks"


def late(rounds: Sequence[Measured]) -> list[Measured]:
    """The rounds that are judged."""
    return [one for one in rounds if one.number >= FIRST]


def can_be_judged(rounds: Sequence[Measured]) -> bool:
    """Whether a kernel has lived for long enough."""
    return len(late(rounds)) >= LEAST


def slope_mb(rounds: Sequence[Measured]) -> float:
    """Megabytes a profile: the median of the slopes between all pairs of judged rounds (Theil and Sen)."""
    # A single round that is far off, as when an arena of the allocator is taken, does not move it. 0 where
    # fewer than two rounds are judged.
    kept = late(rounds)
    slopes = [
        (b.memory_bytes - a.memory_bytes) / (b.profiles - a.profiles)
        for i, a in enumerate(kept)
        for b in kept[i + 1 :]
        if b.profiles > a.profiles
    ]
    return median(slopes) / 1e6 if slopes else 0.0


def judged(rounds: Sequence[Measured]) -> list[Broken]:
    """The laws that the rounds of one kernel break; none where it has not lived for long enough."""
    broken = changed(rounds)
    if can_be_judged(rounds):
        broken += grown(rounds) + grown_memory(rounds)
    return broken


def grown(rounds: Sequence[Measured]) -> list[Broken]:
    """What is counted and is higher in the last third of the judged rounds than it ever was in the first."""
    kept = late(rounds)
    third = len(kept) // 3
    broken = []
    for name in sorted({name for one in kept for name in one.counts}):
        values = [one.counts.get(name, 0) for one in kept]
        before, after = max(values[:third]), max(values[-third:])
        if after > before:
            rising = [
                one for one, last in zip(kept[1:], values, strict=False) if one.counts.get(name, 0) > last
            ]
            sentence = (
                f"{before} at most in the first third of the rounds from {FIRST} on, {after} in the last"
            )
            broken.append(Broken(name, sentence, tuple(rising)))
    return broken


def grown_memory(rounds: Sequence[Measured]) -> list[Broken]:
    """Memory, if it grows by more than `MOST_MB` a profile; with the rounds in which it grew most."""
    slope = slope_mb(rounds)
    if slope <= MOST_MB:
        return []
    kept = late(rounds)
    steps = sorted(itertools.pairwise(kept), key=lambda pair: pair[0].memory_bytes - pair[1].memory_bytes)
    rising = sorted((after for _, after in steps[:6]), key=lambda one: one.number)
    return [Broken("memory", f"{slope:.3f} MB a profile, {MOST_MB} MB at most", tuple(rising))]


def changed(rounds: Sequence[Measured]) -> list[Broken]:
    """What is not as it was at first, such as a handler of a signal; with the first round that shows it."""
    broken = []
    for name in sorted({name for one in rounds for name in one.state}):
        before = rounds[0].state.get(name)
        other = [one for one in rounds if one.state.get(name) != before]
        if other:
            broken.append(Broken(name, f"was {before}, became {other[0].state.get(name)}", tuple(other[:1])))
    return broken
