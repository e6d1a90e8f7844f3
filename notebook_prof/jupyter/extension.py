"""Loading and unloading: registers everything for ``%load_ext notebook_prof``, and removes all of it."""

from __future__ import annotations

import sys
from typing import Any

from ..collectors import registry
from ..collectors.python import py_spy_attachment as py_spy
from ..interrupts import DelayedInterrupt
from .ab_magic import TurnsMagics
from .cell import CellTransformer, OneLine, strip_magic, watch
from .magics import ProfileMagics

_MAGICS = (ProfileMagics, TurnsMagics)


def load(shell: Any) -> None:
    """Register transformers, events and magics; does nothing if they are registered already."""
    if strip_magic in shell.input_transformers_cleanup:
        return
    with DelayedInterrupt():  # otherwise half might stay, and the next `load` would do nothing
        # last: leading empty lines and prompts are gone by then
        shell.input_transformers_cleanup.append(strip_magic)
        shell.input_transformers_post.insert(0, OneLine(shell))  # where IPython transforms it
        shell.ast_transformers.append(CellTransformer(shell))
        shell.events.register("pre_run_cell", watch.pre_run_cell)
        shell.events.register("post_run_cell", watch.post_run_cell)
        shell.register_magics(*_MAGICS)
        registry.prepare()
        py_spy.keep_warm()


def unload(shell: Any) -> None:
    """Remove everything that `load` registered."""
    if strip_magic in shell.input_transformers_cleanup:
        with DelayedInterrupt():
            _unload(shell)


def _unload(shell: Any) -> None:
    if watch.end_all():  # called inside a profiled cell, whose rest is not recorded
        from ..session import ticks

        def over(result: Any) -> None:
            shell.events.unregister("post_run_cell", over)
            ticks.withdraw()

        shell.events.register("post_run_cell", over)
    shell.input_transformers_cleanup.remove(strip_magic)
    post = shell.input_transformers_post
    post[:] = [transformer for transformer in post if not isinstance(transformer, OneLine)]
    shell.ast_transformers[:] = [
        transformer for transformer in shell.ast_transformers if not isinstance(transformer, CellTransformer)
    ]
    shell.events.unregister("pre_run_cell", watch.pre_run_cell)
    shell.events.unregister("post_run_cell", watch.post_run_cell)
    if (events := sys.modules.get("notebook_prof.jupyter.notebook.events")) is not None:
        events.unregister(shell)
    for kind, registered in shell.magics_manager.magics.items():
        for magics in _MAGICS:
            for name in magics.magics[kind]:
                registered.pop(name, None)
    configurables = getattr(shell, "configurables", [])  # IPython never removes any
    configurables[:] = [one for one in configurables if not isinstance(one, _MAGICS)]
    py_spy.let_cool()
