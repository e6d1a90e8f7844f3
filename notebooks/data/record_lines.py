"""Record ``python/lines.nbprof.zip``: a cell of pandas and NumPy with ``--heap``, in a kernel of its own.

``python notebooks/data/record_lines.py`` writes the file anew; an installation's folder becomes ``/venv``.
"""

from __future__ import annotations

import gzip
import os
import re
from pathlib import Path

import nbformat
from nbclient import NotebookClient

TO = Path(__file__).parent / "python" / "lines.nbprof.zip"
CELLS = [
    "%load_ext notebook_prof",
    """\
import numpy as np
import pandas as pd

rng = np.random.default_rng(0)
rides = pd.DataFrame({"zone": rng.integers(0, 40, 60_000), "km": rng.gamma(2.0, 3.0, 60_000)})
rates = pd.Series(rng.uniform(1.0, 3.0, 40))


def price(ride):
    return 4.0 + max(ride["km"] - 2.0, 0.0) * rates[ride["zone"]]
""",
    """\
%%profile p --heap
rides["fare"] = rides.apply(price, axis=1)
by_zone = rides.groupby("zone")["fare"].agg(["count", "mean"])
apart = rides["km"].to_numpy()[:4_000, None] - rides["km"].to_numpy()[None, :4_000]
near = (np.abs(apart) < 0.1).sum(axis=1)
""",
    f"p.save({str(TO)!r})",
]


def main() -> None:
    """Run the cells, and name the installation's folder ``/venv`` in what they saved."""
    TO.parent.mkdir(exist_ok=True)
    os.environ["NOTEBOOK_PROF_HISTORY"] = "off"
    NotebookClient(
        nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in CELLS]), timeout=600
    ).execute()
    text = gzip.decompress(TO.read_bytes()).decode()
    text = re.sub(r'"[^"]*(/lib/python3\.\d+/)', r'"/venv\1', text)
    TO.write_bytes(gzip.compress(text.encode(), mtime=0))


if __name__ == "__main__":
    main()
