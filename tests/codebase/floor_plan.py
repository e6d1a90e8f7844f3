"""Draw the floor plan of `docs/architecture.md` from the imports: ``python -m tests.codebase.floor_plan``."""

from __future__ import annotations

from pathlib import Path

from .source import FILES, ROOT, imported, module_name, room
from .test_floors import FLOORS

PLAN = ROOT / "docs" / "images" / "floors.svg"
WIDTH, LEFT, GAP, TOP, HIGH = 1080, 60, 12, 34, 72
SAYS = {
    "errors": "every error of ours",
    "labels": "short names",
    "trace": "schema, Trace, builder",
    "selection": "clauses, filters",
    "statistics": "times of steps",
    "expectations": "limits → outcomes",
    "readers": "files → Trace",
    "writers": "Trace → files",
    "analysis": "Trace → tables",
    "formats": "foreign systems",
    "collectors": "running code → Trace",
    "service": "questions → answers",
    "testing": "drawn and made traces",
    "views": "Bokeh, reports",
    "profiles": "Profile",
    "session": "one recording",
    "ranks": "many recordings",
    "jupyter": "magics, widgets",
    "cli": "notebook-prof",
}
"""What each room is for, in the few words that fit."""


def uses() -> dict[str, list[str]]:
    """Which rooms each room imports, the lowest floor first."""
    rooms_of: dict[str, set[str]] = {name: set() for name in FLOORS}
    for path in FILES:
        here = room(module_name(path))
        if here in rooms_of:
            rooms_of[here] |= {room(module) for module in imported(path)} - {here, ""}
    return {name: sorted(rooms, key=lambda one: (FLOORS[one], one)) for name, rooms in rooms_of.items()}


def drawn() -> str:
    """Return the plan as SVG: a row a floor, a box a room with the rooms that it uses."""
    highest = max(FLOORS.values())
    height = TOP + (highest + 1) * (HIGH + GAP)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
        'font-family="system-ui, sans-serif" role="img" aria-label="Rooms by floor">',
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
        '<text x="12" y="22" font-size="13" fill="#57606a">Imports point down. Below each name: what it is '
        "for, and the rooms that it imports (floor 1 is left out).</text>",
    ]
    below, using = {name for name, floor in FLOORS.items() if floor == 1}, uses()
    for floor in range(highest, -1, -1):
        rooms = sorted(name for name, at in FLOORS.items() if at == floor)
        y = TOP + (highest - floor) * (HIGH + GAP)
        wide = (WIDTH - LEFT - GAP) / len(rooms) - GAP
        parts.append(f'<text x="24" y="{y + HIGH / 2 + 7:.0f}" font-size="20" fill="#8c959f">{floor}</text>')
        for at, name in enumerate(rooms):
            x = LEFT + at * (wide + GAP)
            lines = _wrapped([one for one in using[name] if one not in below], wide)
            parts.append(
                f'<rect x="{x:.0f}" y="{y}" width="{wide:.0f}" height="{HIGH}" rx="8" '
                'fill="#f6f8fa" stroke="#d0d7de"/>'
            )
            parts.append(_text(x, y + 22, name, 'font-size="15" font-weight="600" fill="#1f2328"'))
            parts.append(_text(x, y + 40, SAYS.get(name, ""), 'font-size="12" fill="#1f2328"'))
            parts += [
                _text(x, y + 58 + 13 * row, line, 'font-size="11" fill="#57606a"')
                for row, line in enumerate(lines)
            ]
    return "\n".join([*parts, "</svg>", ""])


def _text(x: float, y: float, text: str, style: str) -> str:
    return f'<text x="{x + 10:.0f}" y="{y:.0f}" {style}>{text}</text>'


def _wrapped(names: list[str], wide: float) -> list[str]:
    lines: list[str] = []
    for name in names:
        if lines and (len(lines[-1]) + len(name) + 1) * 5.6 < wide - 20:
            lines[-1] += f" {name}"
        else:
            lines.append(name)
    return lines


if __name__ == "__main__":
    Path(PLAN).write_text(drawn(), encoding="utf-8")
