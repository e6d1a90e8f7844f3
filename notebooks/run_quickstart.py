"""Run the quickstart in a real kernel, print what it found, and say where the report is."""

from __future__ import annotations

import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

HERE = Path(__file__).parent


def main() -> int:
    """Execute ``quickstart.ipynb``; the report and the executed notebook land beside it."""
    report = HERE / "quickstart.report.html"
    report.unlink(missing_ok=True)
    notebook = nbformat.read(HERE / "quickstart.ipynb", as_version=4)
    print("running notebooks/quickstart.ipynb in a fresh kernel …")
    client = NotebookClient(notebook, timeout=600, resources={"metadata": {"path": str(HERE)}})
    try:
        client.execute()
    except CellExecutionError as error:
        print(error, file=sys.stderr)
        return 1
    nbformat.write(notebook, HERE / "quickstart.executed.ipynb")
    if not report.is_file():
        print("the notebook ran, but wrote no report", file=sys.stderr)
        return 1
    print(f"\n{printed_by('print(p.verdict)', notebook)}\n")
    print(f"report:   {report.relative_to(Path.cwd()) if inside_cwd(report) else report}")
    print(
        f"          {report.stat().st_size / 2**20:.1f} MiB, opens in any browser, needs no network and no kernel"
    )
    return 0


def printed_by(source: str, notebook: nbformat.NotebookNode) -> str:
    """What the cell with this source printed."""
    for cell in notebook.cells:
        if cell.cell_type == "code" and cell.source == source:
            return "".join(o.text for o in cell.outputs if o.output_type == "stream").strip()
    raise LookupError(f"no cell {source!r} in the quickstart")


def inside_cwd(path: Path) -> bool:
    """Whether `path` lies below the working directory."""
    return path.is_relative_to(Path.cwd())


if __name__ == "__main__":
    raise SystemExit(main())
