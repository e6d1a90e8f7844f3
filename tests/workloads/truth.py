"""Writes docs/truth.md: what is true of each workload, what was said before, and what is said now.

``python -m tests.workloads.truth RESULTS…`` writes it from what ``python -m tests.workloads --json`` and
``python -m tests.workloads.kinds`` kept; so do tests/workloads with a file in ``NBP_TRUTH``. Rows of
workloads that no file holds stay.
"""

import json
import os
import platform
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .kinds import CELLS, Kind
from .kinds_of_files import FILES, FileKind
from .runner import Run

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "truth.md"

ROW = re.compile(r"(?m)^\| `(\w+)` \|(.*)\| ((?:[^|\\]|\\.)*) \|$")
"""Name of a workload, what is true of it and what was said before, and what is said now."""
MACHINE = re.compile(r"(?<=of one run each; ).*?(?=\. Its times)")


def keep(run: Run, file: Path) -> None:
    """Add a run to a file of results."""
    results = json.loads(file.read_text()) if file.exists() else {}
    versions = f"Python {platform.python_version()}, {os.cpu_count()} cores, {platform.system()}"
    facts = ("verdict", "kind", "bare_s", "wall_s", "statements_s", "printed", "high_water_bytes")
    told = {fact: getattr(run, fact) for fact in facts}
    results[run.workload.name] = {"machine": versions, **told, "steps": len(run.said.get("steps", ()))}
    file.write_text(json.dumps(results, indent=1))


MOST_CHARACTERS = 240


def table(kinds: Sequence[Kind | FileKind], said: dict[str, str]) -> str:
    """A table of kinds: what is true of each, and the first line of what is said."""
    rows = ["| kind | true | said |", "|---|---|---|"]
    for one in kinds:
        words = said.get(one.kind, "not run").partition("\n")[0]
        words = words if len(words) <= MOST_CHARACTERS else words[: MOST_CHARACTERS - 1] + "…"
        rows.append(f"| {one.kind} | {one.true} | {cell(words)} |")
    return "\n".join(rows)


def cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", "<br>")


def render(results: dict[str, dict[str, Any]], before: str) -> str:
    """The document with what is said now, from results by workload and the document as it was."""
    kinds = results.get("kinds")
    for name, rows in (("cells", CELLS), ("files", FILES)) if kinds else ():
        begin, end = f"<!-- kinds of {name} -->\n\n", f"\n\n<!-- end of kinds of {name} -->"
        head, _, rest = before.partition(begin)
        before = f"{head}{begin}{table(rows, kinds)}{end}{rest.partition(end)[2]}"
    results = {name: one for name, one in results.items() if name != "kinds"}
    said = {name: cell("\n".join(one["verdict"].splitlines()[:2])) for name, one in results.items()}
    if machines := [one["machine"] for one in results.values()]:
        before = MACHINE.sub(machines[0], before)
    return ROW.sub(lambda row: f"| `{row[1]}` |{row[2]}| {said.get(row[1], row[3])} |", before)


def main(files: list[str]) -> int:
    """Write the document from the results in these files."""
    results: dict[str, dict[str, Any]] = {}
    for file in files:
        results.update(json.loads(Path(file).read_text()))
    before = DOCUMENT.read_text(encoding="utf-8")
    DOCUMENT.write_text(render(results, before), encoding="utf-8")
    kinds = results.pop("kinds", {})
    without = set(results) - {row[1] for row in ROW.finditer(before)}
    print(f"{len(results) + len(kinds)} rows written to {DOCUMENT.name}")
    if without:
        print(f"add a row with what is true of: {', '.join(sorted(without))}")
    return bool(without)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
