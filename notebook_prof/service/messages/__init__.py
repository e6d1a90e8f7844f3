"""What page and kernel say to each other, declared once.

``python -m notebook_prof.service.messages`` writes it for TypeScript.
"""

from __future__ import annotations

from .answers import ANSWERS, Declared
from .questions import QUESTIONS, decode

__all__ = ["ANSWERS", "QUESTIONS", "Declared", "decode"]
