"""Namespaces of a Profile."""

from __future__ import annotations

import inspect

import pandas as pd
import pytest

from notebook_prof import Profile, analysis
from notebook_prof.analysis.verdict.claims import METHODS, Claim
from notebook_prof.profiles.export import Export
from notebook_prof.profiles.namespace import Namespace
from notebook_prof.profiles.topics import TOPICS, Compat
from notebook_prof.testing import draw

KINDS = (*TOPICS, Export, Compat)


@pytest.fixture
def profile() -> Profile:
    return Profile(draw("steps: [0       ][1      ]\nmain:  [mm ][add  ][mm ]"))


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.path)
def test_a_namespace_lists_its_members(profile: Profile, kind: type[Namespace]) -> None:
    space = getattr(profile, kind.path)
    assert type(space) is kind
    assert dir(space) == sorted(kind.members())
    lines = repr(space).splitlines()
    assert len(lines) == len(kind.members()) + callable(space)
    for name, line in zip(kind.members(), lines[callable(space) :], strict=True):
        doc = inspect.getdoc(getattr(space, name)) or ""
        assert line.split("  ", 1)[0].rstrip() == f"p.{kind.path}.{name}()"
        assert line.endswith(doc.splitlines()[0])
        assert len(doc.splitlines()[0]) > 10


def test_every_analysis_has_one_method(profile: Profile) -> None:
    assert METHODS.keys() <= {*analysis.__all__}
    paths = {f"{kind.path}.{name}" for kind in TOPICS for name in kind.members()}
    assert paths == {*METHODS.values()}


def test_a_claim_says_what_to_call(profile: Profile) -> None:
    claims = [Claim(name, "") for name in METHODS]
    claims += [Claim("host_waits", "", arguments={"window": (2, 9)}), *profile.verdict.claims]
    for claim in claims:
        table = eval(claim.call, {"p": profile})
        pd.testing.assert_frame_equal(table, getattr(analysis, claim.table)(profile.trace, **claim.arguments))
