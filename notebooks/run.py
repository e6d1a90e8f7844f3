"""Run notebooks of this folder in real kernels, print what they found, and say where the report is.

``python notebooks/run.py`` runs the quickstart, ``python notebooks/run.py which_line idle_gpu`` these stories,
``python notebooks/run.py all`` every one.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

HERE = Path(__file__).parent
QUICKSTART = "quickstart"


def main(names: Sequence[str]) -> int:
    """Execute notebooks; each executed one lands beside its source, and so does the report of the quickstart."""
    there = sorted(path.stem for path in HERE.glob("*.ipynb") if not path.stem.endswith(".executed"))
    names = there if list(names) == ["all"] else names or [QUICKSTART]
    if unknown := [name for name in names if name not in there]:
        print(f"there is no notebook {unknown[0]!r}: there are {', '.join(there)}", file=sys.stderr)
        return 2
    return max(run(name) for name in names)


def run(name: str) -> int:
    """Execute one notebook and print its finding; 1 if a cell failed, or the report is missing."""
    report = HERE / f"{QUICKSTART}.report.html"
    if name == QUICKSTART:
        report.unlink(missing_ok=True)
    notebook = nbformat.read(HERE / f"{name}.ipynb", as_version=4)
    print(f"running notebooks/{name}.ipynb in a fresh kernel …", flush=True)
    client = NotebookClient(notebook, timeout=600, resources={"metadata": {"path": str(HERE)}})
    try:
        client.execute()
    except CellExecutionError as error:
        print(error, file=sys.stderr)
        return 1
    nbformat.write(notebook, HERE / f"{name}.executed.ipynb")
    if name != QUICKSTART:
        print(f"\n{printed_by(notebook.cells[-1])}\n")
        return 0
    if not report.is_file():
        print("the notebook ran, but wrote no report", file=sys.stderr)
        return 1
    verdict = next(cell for cell in notebook.cells if cell.source == "print(p.verdict)")
    print(f"\n{printed_by(verdict)}\n")
    print(f"report:   {report.relative_to(Path.cwd()) if report.is_relative_to(Path.cwd()) else report}")
    size = report.stat().st_size / 2**20
    print(f"          {size:.1f} MiB, opens in any browser, needs no network and no kernel")
    return 0


def printed_by(cell: nbformat.NotebookNode) -> str:
    """What a cell printed."""
    return "".join(out.text for out in cell.outputs if out.output_type == "stream").strip()


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
