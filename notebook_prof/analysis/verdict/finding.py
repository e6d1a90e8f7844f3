"""What one judgement of a run is made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from .claims import Sentence


@dataclass(frozen=True, slots=True)
class Finding:
    """A kind of verdict with its sentence; the fields are those of `Verdict`.

    Attributes
    ----------
    kind : str
    sentence : Sentence
    share : float
    evidence, select : mapping
    nothing_else : bool
        Whether the sentence is all there is to say.
    """

    kind: str
    sentence: Sentence
    share: float
    evidence: Mapping[str, Any] = field(default_factory=dict)
    select: Mapping[str, Any] = field(default_factory=dict)
    nothing_else: bool = False
