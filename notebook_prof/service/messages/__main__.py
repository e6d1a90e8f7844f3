"""Write the messages for TypeScript."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from .answers import ANSWERS, MODULES, slices, tabs, timeline, trace
from .base import Columns, Declared, Header
from .questions import QUESTIONS, CurveRequest, Question
from .typescript import alias, interface, table

_REMARK: Final = "// Written by `python -m notebook_prof.service.messages`: do not change it here."
TYPES: Final = Path(__file__).parents[3] / "js" / "src" / "types"


def declarations() -> dict[str, str]:
    """Return the content of each generated file of ``js/src/types``."""
    requests_by_name = table(
        "Asked",
        "What is asked with each question beside its name.",
        ((name, declared.__name__) for name, declared in QUESTIONS.items()),
    )
    replies = table(
        "Answers",
        "What comes back.",
        ((name, " | ".join(one.__name__ for one in kinds)) for name, kinds in ANSWERS.items()),
    )
    requests: list[type[Question]] = [CurveRequest, *QUESTIONS.values()]
    questions = [interface(one) for one in requests]
    aliases = [
        alias("CellUnit", tabs.Unit),
        alias("TabPart", tabs.Part),
        alias("Doubts", trace.Doubts),
        alias("LodPicture", timeline.LodPicture),
        alias("SearchAnswer", slices.SearchAnswer),
    ]
    return {
        "questions.d.ts": "\n".join([_REMARK, *questions, requests_by_name]) + "\n",
        "answers.d.ts": "\n".join([_REMARK, *aliases, *map(interface, _declared()), replies]) + "\n",
    }


def _declared() -> list[type[Columns] | type[Declared]]:
    values = [value for module in MODULES for value in vars(module).values() if isinstance(value, type)]
    kinds = [one for one in values if issubclass(one, Columns | Declared) and one not in (Columns, Declared)]
    return [Header, *dict.fromkeys(kinds)]


if __name__ == "__main__":
    for name, text in declarations().items():
        (TYPES / name).write_text(text, encoding="utf-8")
