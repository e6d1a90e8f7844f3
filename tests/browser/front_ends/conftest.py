"""Fixtures of the journeys: what is not installed is skipped with its reason."""

import importlib.metadata
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import pytest

from ..conftest import SIZE
from ..jupyter_page import PATIENCE_MS, Browser
from .journey import SECONDS

TARGET: Final = "make test-front-ends installs it"
OUTPUT: Final = Path(__file__).parents[3] / "test-output" / "front_ends"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Each starts a server and a kernel, and goes the whole journey."""
    for item in items:
        if Path(__file__).parent in Path(item.fspath).parents:
            item.add_marker(pytest.mark.slow)
            item.add_marker(pytest.mark.front_end)


@pytest.fixture(scope="session")
def needs() -> Callable[[str], str]:
    """Gives a package's version; skips where it is not installed."""

    def version(package: str) -> str:
        try:
            return importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            pytest.skip(f"{package} is not installed: {TARGET}")

    return version


@pytest.fixture
def closing() -> Iterator[ExitStack]:
    """Ends servers and kernels after the page has been left: what they take with them is no complaint."""
    with ExitStack() as stack:
        yield stack


@pytest.fixture
def clean(browser: Browser, closing: ExitStack, request: pytest.FixtureRequest) -> Iterator[Browser]:
    """A browser on an empty page; no complaint of ours may come, nor a request to elsewhere."""
    # What a front-end says or asks for by itself is listed in `browser.expected`. A picture of the end is
    # kept.
    browser.blank()
    browser.page.set_viewport_size(SIZE)
    browser.page.set_default_timeout(1000 * SECONDS)
    browser.expected = []
    yield browser
    OUTPUT.mkdir(parents=True, exist_ok=True)
    browser.page.screenshot(path=OUTPUT / f"{request.node.name}.png")
    complaints, elsewhere = (
        [text for text in noted if not any(own in text for own in browser.expected)]
        for noted in (browser.errors, browser.elsewhere)
    )
    browser.page.emulate_media(color_scheme="light")
    browser.page.set_default_timeout(PATIENCE_MS)
    browser.blank()
    assert complaints == [], "\n".join(complaints)
    assert elsewhere == []
