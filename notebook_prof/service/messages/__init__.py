"""Messages between page and kernel, declared once.

``python -m notebook_prof.service.messages`` writes their TypeScript declarations.
"""

from __future__ import annotations

from .answers import ANSWERS, Declared
from .questions import QUESTIONS, decode

__all__ = ["ANSWERS", "QUESTIONS", "Declared", "decode"]
