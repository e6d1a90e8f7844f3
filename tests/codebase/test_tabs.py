"""The table of tabs in `docs/views.md` is made of their declarations.

``python -m tests.codebase.test_tabs`` writes it.
"""

from __future__ import annotations

import re
from pathlib import Path

from notebook_prof.views.tabs import TABS

PAGE = Path(__file__).resolve().parents[2] / "docs" / "views.md"
TABLE = re.compile(r"\| tab \| what \| in Python \|\n\|---\|---\|---\|\n(?:\|.*\n)+")
OPERATORS = (
    "| [operators](images/tab-operators.png) "
    "| The table by name, shapes, module or category. | `p.operators()` |"
)


def table() -> str:
    """The rows: the page's own table of operators, then every tab in the order of the rail."""
    rows = []
    for name, tab in TABS.items():
        pictured = (PAGE.parent / "images" / f"tab-{name}.png").exists()
        title = f"[{name}](images/tab-{name}.png)" if pictured else name
        calls = [*tab.calls, *(f"p.plot.{plot}()" for plot in tab.plots)]
        rows.append(f"| {title} | {tab.summary} | {', '.join(f'`{call}`' for call in calls)} |")
    return "\n".join(["| tab | what | in Python |", "|---|---|---|", rows[0], OPERATORS, *rows[1:], ""])


def test_the_page_has_every_tab_as_it_is_declared() -> None:
    match = TABLE.search(PAGE.read_text(encoding="utf-8"))
    assert match is not None
    assert match[0] == table(), "run python -m tests.codebase.test_tabs"
    assert [name for name, tab in TABS.items() if tab.summary[-1:] != "." or not tab.calls] == []


if __name__ == "__main__":
    PAGE.write_text(TABLE.sub(lambda _: table(), PAGE.read_text(encoding="utf-8")), encoding="utf-8")
