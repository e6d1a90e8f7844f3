"""notebook_prof: where did the time and the memory of this cell go?

In a notebook::

    %load_ext notebook_prof

    %%profile --steps 3:14
    for batch in loader:
        ...

Collectors and readers make a `Trace`; analyses turn a Trace into tables; views draw tables; one `Selection`
links the views. Importing this package imports no heavy library: names are imported when they are first used
(PEP 562).

PYTEST_DONT_REWRITE: there are no assertions here, and pytest would warn that the package was imported too
early.
"""

from __future__ import annotations

import importlib
import warnings
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

__version__ = "0.2.0"

_NAMES = {
    "cells.build": "notebook",
    "collectors.ceilings": "measure_device",
    "collectors.marks": "annotate step steps",
    "collectors.registry": "list_collectors",
    "comparison.comparison": "compare",
    "errors": "AlreadyRecordingError NotRecordedError NotebookProfError",
    "profiles.files": "open_profile",
    "profiles.profile": "Profile",
    "ranks.profiles": "merge_trace_events read_ranks",
    "readers": "list_formats read_trace",
    "runs.table": "history load",
    "selection": "Selection",
    "session.handlers": "export_chrome_tracing tensorboard_trace_handler",
    "session.recorder": "profile",
    "session.schedule": "RecordingState schedule",
    "trace": "Trace TraceBuilder Window",
}
_HOMES = {name: module for module, names in _NAMES.items() for name in names.split()}

__all__ = ["__version__", "last", "load_ipython_extension", "unload_ipython_extension", *sorted(_HOMES)]


def __getattr__(name: str) -> Any:
    if name == "last":
        return importlib.import_module("notebook_prof.session.current").last()
    if (home := _HOMES.get(name)) is None:
        raise AttributeError(f"module 'notebook_prof' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"notebook_prof.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)


def load_ipython_extension(shell: InteractiveShell) -> None:
    """Register the magics; IPython calls this on ``%load_ext notebook_prof``."""
    wrong = importlib.import_module("notebook_prof.optional").wrong_requirements()
    try:
        importlib.import_module("notebook_prof.jupyter.extension").load(shell)
    except ImportError as error:
        raise ImportError("; ".join(wrong) or str(error)) from None
    for sentence in wrong:
        warnings.warn(sentence, stacklevel=2)


def unload_ipython_extension(shell: InteractiveShell) -> None:
    """Remove every hook and magic; IPython calls this on ``%unload_ext notebook_prof``."""
    importlib.import_module("notebook_prof.jupyter.extension").unload(shell)
