"""Laws that the Profile of every workload keeps."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from .conftest import Play
from .laws import LAWS
from .runner import CELLS, Run

FRAMEWORKS = {
    "lightning",
    "hf_trainer",
    "hf_generate",
    "keras_torch",
    "ignite",
    "fastai",
    "accumulate",
    "jax",
    "flax",
}
"""Packages that `make test` does not install; test_frameworks checks the laws there."""

OWN = sorted(file.stem for file in CELLS.glob("*.py") if file.stem not in FRAMEWORKS | {"mytrain"})


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__.removeprefix("check_"))
@pytest.mark.parametrize("name", OWN)
def test_law(name: str, law: Callable[[Run], None], play: Play) -> None:
    if name == "rf":
        pytest.importorskip("sklearn")
    if name == "rss_peak":
        law(play(name, kernel="fresh", bare=False))
    else:
        law(play(name, fails=name == "raises"))
