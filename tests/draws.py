"""How much tests draw: some in every run, the same each time, and all of it with ``NBP_EXPLORE=1``."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import date
from typing import Final, TypeVar

EXPLORE: Final = "NBP_EXPLORE" in os.environ
_Case = TypeVar("_Case")


def draws(all_of_them: int) -> int:
    """Return how many examples of a law are drawn: a third of them, and at least four."""
    return all_of_them if EXPLORE else max(all_of_them // 3, min(all_of_them, 4))


def share_of_today(cases: Sequence[_Case], stride: int) -> Sequence[_Case]:
    """Return every `stride`-th of many like cases, from another one each day: all of them have their turn."""
    return cases if EXPLORE else cases[date.today().toordinal() % stride :: stride]
