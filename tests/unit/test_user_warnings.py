"""Work of ours does not show the user's warnings again."""

import threading
import warnings

import pandas as pd
import pytest

from notebook_prof import background
from notebook_prof.background import keeping_warnings, start_thread


def warns() -> None:
    warnings.warn("once for this line", stacklevel=1)


def changes_filters() -> None:
    pd.Series([1.5]).astype("int64")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Warnings that are shown, under Python's own filters."""
    shown: list[str] = []
    monkeypatch.setattr(warnings, "showwarning", lambda message, *_: shown.append(str(message)))
    monkeypatch.setattr(warnings, "filters", [("default", None, Warning, None, 0)])
    warnings.simplefilter("default")  # what was shown before is forgotten
    return shown


def test_a_thread_of_ours_lets_python_remember_what_it_has_shown(shown: list[str]) -> None:
    for _ in range(3):
        warns()
        thread = start_thread(changes_filters, "notebook_prof test")
        assert thread is not None
        thread.join()
    assert shown == ["once for this line"]


def test_filters_of_the_user_count_meanwhile(shown: list[str]) -> None:
    before = {name: getattr(warnings, name, None) for name in background._MUTATED}
    warns()
    users = threading.Thread(target=lambda: warnings.simplefilter("always"))
    with keeping_warnings(), keeping_warnings():
        users.start()
        users.join()
        warns()
    warns()
    assert len(shown) == 3
    assert {name: getattr(warnings, name, None) for name in background._MUTATED} == before
