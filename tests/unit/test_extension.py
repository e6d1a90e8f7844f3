"""Loading and unloading are whole, or not begun."""

from __future__ import annotations

import signal
from collections import Counter
from typing import Any

import pytest

from notebook_prof.jupyter import extension


class Shell:
    """What `load` needs of IPython."""

    def __init__(self) -> None:
        self.input_transformers_cleanup: list[Any] = []
        self.input_transformers_post: list[Any] = []
        self.ast_transformers: list[Any] = []
        self.configurables: list[Any] = []
        self.magics: list[Any] = []
        self.registered: Counter[str] = Counter()
        self.events = self
        self.magics_manager = self
        self.user_ns: dict[str, Any] = {}

    def register(self, event: str, action: Any) -> None:
        self.registered[event] += 1

    def register_magics(self, *kinds: Any) -> None:
        self.magics += kinds


def test_an_interrupt_waits_until_everything_is_registered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half of it would stay so, since the next `load` finds it registered."""
    shell, began = Shell(), []
    monkeypatch.setattr(extension.registry, "prepare", lambda: signal.raise_signal(signal.SIGINT))
    monkeypatch.setattr(extension.py_spy, "keep_warm", lambda: began.append("py-spy"))
    with pytest.raises(KeyboardInterrupt):
        extension.load(shell)
    assert began == ["py-spy"]
    assert shell.registered == {"pre_run_cell": 1, "post_run_cell": 1}
    extension.load(shell)
    assert shell.registered == {"pre_run_cell": 1, "post_run_cell": 1}
