"""Notebooks of strangers behave the same under ``%%profile``, under the watch, and without either."""

import re
from typing import Any

import pytest

from tests.conftest import REPOSITORY
from tests.notebook.conftest import Kernel

FOLDER = REPOSITORY.parent / "shared" / "workloads" / "notebooks"
CHANGING = re.compile(r"0x[0-9a-f]{6,}|\x1b\[[0-9;]*m|\d+(\.\d+)? ?(ns|µs|μs|us|ms|s)\b")


def outcomes(kernel: Kernel, sources: list[str], head: str) -> tuple[list[Any], list[str]]:
    """What the cells print, show and raise, and the names that they leave; the names are taken away."""
    kernel.must("_names_before = set(globals())")
    replies = [
        kernel.run(source if source.lstrip().startswith("%%") else head + source) for source in sources
    ]
    shown = [
        [CHANGING.sub("", text) for text in (one.error, one.message, one.stdout, one.stderr, *one.results)]
        for one in replies
    ]
    new = "[name for name in globals() if name[0] != '_' and name not in _names_before]"
    names = kernel.value(f"sorted(name + ':' + type(globals()[name]).__name__ for name in {new})")
    kernel.must(f"for name in {new}: del globals()[name]\ndel globals()['_names_before']")
    return [*zip(sources, shown, strict=True)], names


NAMES = ("ww_gen", "ww_err", "cb_async", "ip_capture", "nv_lispy")
"""Notebooks that need no other packages, and print the same when they run twice in one kernel."""


@pytest.mark.parametrize("name", NAMES)
def test_a_notebook_under_profile_or_watched_is_the_notebook(kernel: Kernel, name: str) -> None:
    path = FOLDER / f"{name}.ipynb"
    if not path.exists():
        pytest.skip("the notebooks of strangers are not here (shared/workloads beside the repository)")
    nbformat = pytest.importorskip("nbformat")
    sources = [cell.source for cell in nbformat.read(path, 4).cells if cell.cell_type == "code"]
    sources = [source for source in sources if source.strip()]
    bare, names = outcomes(kernel, sources, "")
    profiled = outcomes(kernel, sources, "%%profile --quiet\n")
    kernel.must("%profile_notebook")
    watched = outcomes(kernel, sources, "")
    kernel.must("%profile_notebook off")
    assert len(bare) > 5
    for how, (shown, names_left) in {"profiled": profiled, "watched": watched}.items():
        for (source, before), (_, after) in zip(bare, shown, strict=True):
            assert after == before, (how, source)
        assert names_left == names, how
