"""Without pyarrow, which files need and a recorded cell does not: a cell is profiled, shown and reported."""

from __future__ import annotations

from pathlib import Path

import notebook_prof

from ..new_process import run_python

ROOT = Path(notebook_prof.__file__).parents[1]
PROGRAM = '''
import sys

class Refusing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "pyarrow":
            raise ModuleNotFoundError("No module named 'pyarrow'", name=name)

sys.meta_path.insert(0, Refusing())
from IPython.core.interactiveshell import InteractiveShell

shell = InteractiveShell.instance()
shell.run_line_magic("load_ext", "notebook_prof")
cell = """%%profile q --quiet --no-history
total = 0
for i in range(10_000_000):
    total += i * i
"""
shell.run_cell(cell).raise_error()
q = shell.user_ns["q"]
from notebook_prof.jupyter.display import static_form
from notebook_prof.jupyter.widget import ProfileWidget

assert {3, 4} <= set(q.lines()["line"])
assert len(q.operators())
assert "total += i * i" in static_form(q, "u")["text/html"]
started, _ = ProfileWidget(q, "u")._reply({"t": "start"})
assert started["document"]
q.export.html(sys.argv[1])
assert "pyarrow" not in sys.modules
try:
    q.save(sys.argv[1] + ".nbprof")
except Exception as error:
    print(error)
'''


def test_a_cell_is_profiled_and_shown_without_pyarrow(tmp_path: Path) -> None:
    """Saving needs it, and says so."""
    assert "pyarrow" in run_python(PROGRAM, tmp_path / "report.html", cwd=ROOT).stdout
    assert (tmp_path / "report.html").stat().st_size > 100_000
