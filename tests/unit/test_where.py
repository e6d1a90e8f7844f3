"""``p.<analysis>(where=…)``: one filter for arguments and rows."""

from __future__ import annotations

import pytest

from notebook_prof.profiles.profile import Profile
from notebook_prof.testing import draw


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
