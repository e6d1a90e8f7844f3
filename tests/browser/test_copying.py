"""C copies code that gives exactly the number that is shown."""

from collections.abc import Callable

import pytest

from notebook_prof import Profile
from notebook_prof.testing import draw

from .dashboard import Report
from .drawn_gpu import drawn_training

OF_TABLE = """[...v.table.body.rows].flatMap((row, i) => [...row.cells].map((cell, k) =>
    [v.table.columns[k].key, v.table.codeAt(cell), v.table.columns[k].value(v.table.last, i)]))
    .filter(([, code]) => code)"""
OF_HOST = {"count", "total", "mean", "min", "max", "self", "share", "device"}


@pytest.mark.parametrize("by", ["name", "category"])
@pytest.mark.parametrize("selected", ["{}", "{window: [3e6, 9e7], step: [4, 5], phase: ['forward']}"])
def test_a_number_of_the_table(report: Callable[..., Report], by: str, selected: str) -> None:
    """Every column of rows of the host, under a selection too, and calls that the dispatcher made twice."""
    p = Profile(drawn_training())
    opened = report(p)
    opened.grouping.select_option(by)
    opened.views(f"void v.store.set({selected}, 'test')")
    opened.settle()
    found = opened.views(OF_TABLE)
    assert {column for column, _, _ in found} == OF_HOST
    for _, code, value in found:
        assert eval(code, {"p": p}) == value, code


def test_a_slice_on_the_edge_of_a_window(report: Callable[..., Report]) -> None:
    p = Profile(draw("main: [mm   ][mm][add    ][mm        ]"))
    opened = report(p)
    opened.views("void v.store.set({window: [5, 12]}, 'test')")
    opened.settle()
    found = opened.views(OF_TABLE)
    assert found
    for _, code, value in found:
        assert eval(code, {"p": p}) == value, code
