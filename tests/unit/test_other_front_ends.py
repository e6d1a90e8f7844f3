"""Front-ends that are not JupyterLab: what they ask a Profile for, and what they do to a comm."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import notebook_prof as nbp
from notebook_prof.jupyter import display as shown
from notebook_prof.jupyter.display import RankWidget
from notebook_prof.jupyter.widget import ProfileWidget
from notebook_prof.profiles.profile import Profile
from notebook_prof.testing import draw


@pytest.fixture
def ranks(tmp_path: Path) -> Any:
    for rank in range(2):
        draw("stream 7: [gemm ]").to_chrome(tmp_path / f"rank{rank}.json")
    return nbp.read_ranks(tmp_path)


def test_marimo_gets_the_views(ranks: Any) -> None:
    """It asks for ``_display_`` and never calls ``_ipython_display_``."""
    for source, kind in ((Profile(draw("main: [mm]")), ProfileWidget), (ranks, RankWidget)):
        widget = source._display_()
        assert isinstance(widget, kind)
        widget.close()


def test_ranks_show_their_page(ranks: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """``nbp.read_ranks(…)`` last in a cell shows the dashboard, as a Profile shows its views."""
    printed: list[Any] = []
    monkeypatch.setattr(shown, "get_ipython", lambda: None)
    monkeypatch.setattr("builtins.print", lambda text: printed.append(text))
    ranks._ipython_display_()
    assert printed == [ranks.dashboard().headline]
    bundle = ranks._repr_mimebundle_()
    assert bundle["text/plain"] == ranks.dashboard().headline
    assert "<svg" in bundle["text/html"] or "<table" in bundle["text/html"]


def test_an_answer_does_not_tie_the_comm_to_a_subshell() -> None:
    """ipykernel routes all later messages to a subshell that JupyterLab deletes when it connects anew."""
    widget = ProfileWidget(Profile(draw("main: [mm]")))
    comm = widget.comm
    assert comm is not None
    comm.__dict__["_reply_subshell_id"] = "deleted"
    widget.send({"buffers": 0})
    assert "_reply_subshell_id" not in vars(comm)
    widget.close()
