"""A single judgement of a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from .claims import Sentence


@dataclass(frozen=True, slots=True)
class Finding:
    """A kind of verdict with its sentence; the fields are those of `Verdict`."""

    kind: str
    sentence: Sentence
    share: float
    evidence: Mapping[str, Any] = field(default_factory=dict)
    select: Mapping[str, Any] = field(default_factory=dict)
    # Whether there is nothing to add to the sentence.
    nothing_else: bool = False
