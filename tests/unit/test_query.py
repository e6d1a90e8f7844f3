"""The filter language, and filters on tables: `p.<analysis>(where=…)`."""

from __future__ import annotations

import time
from contextlib import suppress

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from notebook_prof.errors import OptionError
from notebook_prof.profiles.profile import Profile
from notebook_prof.selection import Query, passing
from notebook_prof.testing import draw


@pytest.fixture
def table() -> pd.DataFrame:
    return pd.DataFrame(
        {
            "name": ["aten::conv2d", "aten::mm", "aten::Mm_backward", None],
            "category": pd.Categorical(["operator", "kernel", "kernel", None]),
            "phase": ["forward", "forward", "backward", None],
            "module": ["layers.0.conv", "layers.1", "layers.10", None],
            "step": pd.array([1, 3, 6, None], dtype="Int32"),
            "self_ns": [2_000_000, 5_000, 1_000_000, 0],
            "count": [3, 20, 10, 1],
            "share": [0.6, 0.1, 0.3, 0.0],
            "bytes": [2.0**20, 1e6, np.nan, 0.0],
        }
    )


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("", [0, 1, 2, 3]),
        ("CONV", [0]),
        ("aten mm", [1, 2]),
        ("/mm$/", [1]),
        ("/mm|conv/ self>=1ms", [0, 2]),
        ("self>1ms", [0]),
        ("self > 1 ms", [0]),
        ("self>= 1ms count<5", [0]),
        ("count>10", [1]),
        ("count=10", [2]),
        ("count!=10", [0, 1, 3]),
        ("share>5%", [0, 1, 2]),
        ("share>=60%", [0]),
        ("share>0.2", [0, 2]),
        ("bytes>=1MiB", [0]),
        ("bytes>=1MB", [0, 1]),
        ("bytes<1KB", [3]),
        ("category=kernel", [1, 2]),
        ("type=operator,kernel", [0, 1, 2]),
        ("phase!=forward", [2]),
        ("module=layers.1", [1, 2]),
        ("step=3", [1]),
        ("step=1:4", [0, 1]),
        ("step=3:", [1, 2]),
        ("step=:3", [0]),
        ("step=1,6", [0, 2]),
        ("step!=1:4", [2]),
        ("step>3", [2]),
        ('"aten::mm"', [1, 2]),
        ("mm phase=backward self>5us step=3:7", [2]),
    ],
)
def test_rows_that_pass(table: pd.DataFrame, text: str, rows: list[int]) -> None:
    assert np.flatnonzero(passing(table, Query.parse(text))).tolist() == rows


@pytest.mark.parametrize(
    "text", ["vectorized_elementwise_kernel<4", "operator=", "a=b", "x>>y", "std::less<int>", "=", "//"]
)
def test_what_is_no_condition_is_a_word(text: str) -> None:
    query = Query.parse(text)
    assert query.words == (text.casefold(),)
    assert query.finds_in([f"void {text}(float)"]).all()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("/(/", "not a regular expression"),
        ("slef>1ms", "did you mean 'self'"),
        ("self>fast", "not a duration"),
        ("count>many", "not a number"),
        ("step=a:b", "not a range"),
        ("step=:", "not a range"),
        ("phase>3", "compares text"),
        ("phsae=backward", "did you mean 'phase'"),
    ],
)
def test_errors_say_what_to_write(text: str, words: str) -> None:
    with pytest.raises(OptionError, match=words):
        Query.parse(text)


def test_a_table_without_the_column_says_what_it_has(table: pd.DataFrame) -> None:
    with pytest.raises(OptionError, match=r"filtered by 'device': its columns are name, category"):
        passing(table, Query.parse("device>1ms"))
    with pytest.raises(OptionError, match="no text"):
        passing(table[["count"]], Query.parse("conv"))


@pytest.mark.parametrize("pattern", ["(a+)+$", "(a|a)*b", "(a|aa)+$", "(.*a){20}", "(?:a?){40}a{40}"])
def test_no_pattern_takes_exponential_time(pattern: str) -> None:
    """Backtracking would take years for these."""
    began = time.process_time()
    Query.parse(f"/{pattern}/").finds_in(["a" * 41 + "!"] * 200)
    assert time.process_time() - began < 60


@given(st.text(max_size=40))
def test_anything_is_a_query_or_an_option_error(text: str) -> None:
    with suppress(OptionError):
        assert Query.parse(text).finds_in([text]).dtype == bool


@pytest.fixture
def p() -> Profile:
    return Profile(
        draw(
            """
            main:     [linear/forward    ] [relu/backward ]
            main:      [mm    ][add    ]
            steps:    [3                  ][4            ]
            """
        )
    )


def test_rows(p: Profile) -> None:
    assert p.operators(where="mm")["name"].tolist() == ["mm"]
    assert p.operators(where="/^(mm|add)$/ self>8ns")["name"].tolist() == ["add"]
    assert p.operators(where="")["name"].tolist() == p.operators()["name"].tolist()


def test_steps_and_phases_are_asked_of_the_analysis(p: Profile) -> None:
    for where, arguments in (
        ("step=3:4", {"step": 3}),
        ("step=4", {"step": [4]}),
        ("phase=backward", {"phase": "backward"}),
        ("type=operator", {"category": "operator"}),
    ):
        assert p.operators(where=where).equals(p.operators(**arguments)), where
    assert p.operators(where="step=9").empty


def test_a_given_argument_stays(p: Profile) -> None:
    assert p.operators(by=["name", "step"], step=3, where="step=4").empty
