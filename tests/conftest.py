"""Fixtures that several rooms' tests share."""

from __future__ import annotations

from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def data() -> Path:
    """The recordings that belong to the repository."""
    return REPOSITORY / "tests" / "data"


@pytest.fixture(scope="session")
def shared_traces() -> Path:
    """Recordings that are too large for the repository; skips where there are none."""
    folder = REPOSITORY.parent / "shared" / "traces"
    if not folder.is_dir():
        pytest.skip(f"the shared recordings are not here ({folder.name}/ beside the repository)")
    return folder


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Browser tests run last: their driver leaves an event loop running in this thread."""
    items.sort(key=lambda item: "browser" in item.path.relative_to(REPOSITORY).parts)
