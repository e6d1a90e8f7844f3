"""The stories on the documentation's site: each is run, and its finding and its views are kept."""

import importlib.util
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

pytest.importorskip("nbclient")

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"


@pytest.fixture(scope="module")
def gallery() -> Iterator[ModuleType]:
    """The hook of MkDocs, loaded as MkDocs does it: by its path."""
    spec = importlib.util.spec_from_file_location("gallery", NOTEBOOKS / "gallery.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["gallery"] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules["gallery"]


def test_the_gallery_has_every_story(gallery: ModuleType) -> None:
    stories = {path.stem for path in NOTEBOOKS.glob("*.ipynb") if ".executed" not in path.stem}
    assert set(gallery.listed()) == set(gallery.REPORTS) == stories
    assert list(gallery.chosen()) == list(gallery.listed())


def test_some_stories_are_chosen(gallery: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(gallery.CHOSEN, "idle_gpu, late_rank")
    assert gallery.chosen() == ["idle_gpu", "late_rank"]
    monkeypatch.setenv(gallery.CHOSEN, "")
    assert gallery.chosen() == []
    assert gallery.on_page_markdown(f"a {gallery.MARK} b", None, None, None) == "a  b"
    monkeypatch.setenv(gallery.CHOSEN, "idle")
    with pytest.raises(ValueError, match="no story 'idle': choose from quickstart, which_line"):
        gallery.chosen()


def test_a_story_is_told(gallery: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its finding is what the notebook prints; its report and its picture are of what it shows."""
    monkeypatch.setenv(gallery.CHOSEN, "idle_gpu")
    before = {path: path.stat().st_mtime_ns for path in NOTEBOOKS.rglob("*") if path.is_file()}
    story = gallery.told("idle_gpu")
    assert "The device copies 42 times as long as it computes." in story.finding
    (report,) = story.reports.values()
    assert 10**6 < report.stat().st_size < 3 * 10**6
    assert "Copy-bound" in report.read_text(encoding="utf-8")
    assert story.picture.read_bytes()[1:4] == b"PNG"
    page = gallery.on_page_markdown(f"# Stories\n\n{gallery.MARK}", None, None, None)
    cells = json.loads((NOTEBOOKS / "idle_gpu.ipynb").read_text())["cells"]
    begins = "".join(cells[0]["source"]).splitlines()[2]
    assert all(part in page for part in ("## The GPU is idle", begins, story.finding))
    assert all(f"](stories/{name})" in page for name in ("idle_gpu.html", "idle_gpu.png", "idle_gpu.ipynb"))
    after = {path: path.stat().st_mtime_ns for path in NOTEBOOKS.rglob("*") if path.is_file()}
    assert after == before, "it writes beside the notebooks"
