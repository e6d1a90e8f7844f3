"""C copies code that gives exactly the number that is shown."""

import re
from collections.abc import Callable, Mapping

import pytest

from notebook_prof import Profile
from notebook_prof.testing import draw
from notebook_prof.units import format_bytes, format_count, format_ns, format_share

from .dashboard import Report
from .drawn_cell import drawn_cell
from .drawn_gpu import drawn_training

OF_TAB = """() => Object.fromEntries([...document.querySelectorAll('.nbp-tab-body td[data-pandas]')].map(
    cell => [cell.dataset.pandas, cell.textContent.trim()]))"""
OF_TABLE = """[...v.table.body.rows].flatMap((row, i) => [...row.cells].map((cell, k) =>
    [v.table.columns[k].key, v.table.codeAt(cell), v.table.columns[k].value(v.table.last, i)]))
    .filter(([, code]) => code)"""
OF_HOST = {"count", "total", "mean", "min", "max", "self", "share", "device"}


def same_texts(codes: Mapping[str, str], p: Profile) -> None:
    """Assert that each code gives the number of its text."""
    for code, shown in codes.items():
        value = eval(code, {"p": p})
        unit = re.findall(r"_(ns|bytes)\"|\"(share)", code)
        texts = {"ns": format_ns, "bytes": format_bytes, "share": format_share}
        text = texts["".join(unit[0])](value) if unit else format_count(value)
        assert _short(shown or text) == _short(text), code


def _short(text: str) -> str:
    """Without the zeros that line columns up."""
    return re.sub(r"\.?0+(?= )", "", text) if "." in text else text


def test_a_number_of_a_line(report: Callable[..., Report]) -> None:
    p = Profile(drawn_cell())
    opened = report(p)
    codes: dict[str, str] = {}
    for name, title in (("source", "Source"), ("lines", "Lines")):
        opened.open_tab(name, title)
        codes |= opened.page.evaluate(OF_TAB)
    assert len(codes) > 20
    same_texts(codes, p)


@pytest.mark.parametrize("mode", ["call_tree", "bottom_up"])
def test_a_number_of_a_tree(report: Callable[..., Report], mode: str) -> None:
    p = Profile(drawn_training())
    opened = report(p)
    opened.open_tab("calls", "Calls")
    opened.part(f"[data-value={mode}]").click()
    opened.tab.locator("code", has_text=f"p.{mode}(").wait_for()
    for _ in range(4):
        opened.part(".nbp-tree tr[aria-expanded=false] .nbp-tree-mark").first.click()
    codes = opened.page.evaluate(OF_TAB)
    assert len(codes) > 20
    assert all(f"p.{mode}(" in code for code in codes if "heaviest" not in code)
    same_texts(codes, p)


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
