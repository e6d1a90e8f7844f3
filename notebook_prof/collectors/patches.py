"""Replaces functions of other libraries during a recording, and watches for the import of a module.

Imports only the standard library.
"""

from __future__ import annotations

import os
import sys
import threading
import warnings
from collections.abc import Callable
from contextlib import suppress
from types import ModuleType
from typing import Any, Final, cast


def drop_frame(error: BaseException) -> None:
    """Remove the caller's frame from an error's traceback. A following ``raise`` does not add it again."""
    # Python 3.10 still shows the frame, since it keeps a copy of the traceback.
    if error.__traceback__ is not None:
        error.__traceback__ = error.__traceback__.tb_next


class Patches:
    """The functions of classes and modules that were replaced."""

    def __init__(self) -> None:
        self._undo: list[tuple[Any, str, Any, Any]] = []

    def replace(self, owner: Any, name: str, make: Callable[[Any], Any]) -> None:
        """Replace ``owner.name`` by what `make` returns for it."""
        original = vars(owner)[name]
        new = make(original)
        new.__name__, new.__qualname__, new.__doc__ = name, original.__qualname__, original.__doc__
        setattr(owner, name, new)
        self._undo.append((owner, name, original, new))

    def watch(self, owner: Any, name: str, begin: Callable[..., Any], end: Callable[..., Any]) -> None:
        """Call `begin` before ``owner.name`` with its arguments, and `end` after it."""
        # `end` gets the object, what `begin` returned, the result, and whether the call failed. Another
        # version of torch may keep its state differently, so errors of both are dropped.

        def make(original: Any) -> Any:
            def call(self: Any, *args: Any, **kwargs: Any) -> Any:
                state = result = None
                failed = True
                with suppress(Exception):
                    state = begin(self, *args, **kwargs)
                try:
                    result = original(self, *args, **kwargs)
                    failed = False
                except BaseException as error:
                    drop_frame(error)
                    raise
                finally:
                    with suppress(Exception):
                        end(self, state, result, failed)
                return result

            return call

        self.replace(owner, name, make)

    def restore(self) -> None:
        """Restore all functions that nobody else has replaced since. A second call does nothing."""
        while self._undo:
            owner, name, original, new = self._undo.pop()
            if vars(owner).get(name) is new:
                setattr(owner, name, original)


OWN_THREADS: Final = "notebook_prof"
"""Prefix of our threads' names."""


def quiet_fork() -> Patches:
    """Suppress the warning about our threads that ``os.fork`` gives from Python 3.12 on."""
    patches = Patches()

    def make(original: Callable[[], int]) -> Callable[[], int]:
        def fork() -> int:
            if _has_other_threads():  # Python would warn without us, too
                return original()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)
                return original()

        return fork

    if sys.version_info >= (3, 12) and hasattr(os, "fork") and not _has_other_threads():
        patches.replace(os, "fork", make)
    return patches


def _has_other_threads() -> bool:
    ours = sum(thread.name.startswith(OWN_THREADS) for thread in threading.enumerate())
    return threading.active_count() - ours > 1


class ImportWatch:
    """Calls a function in the importing thread once a module has been imported."""

    # It stands first in `sys.meta_path`. It finds no module itself, but wraps the loader that another finder
    # returns for the watched one. The wrapper restores the loader before the module runs.
    def __init__(self, name: str, then: Callable[[], object]) -> None:
        self._name = name
        self.then: Callable[[], object] = then

    def watch(self) -> None:
        sys.meta_path.insert(0, self)

    def unwatch(self) -> None:
        """Stop watching; `then` is not called afterwards. A second call does nothing."""
        self.then = bool
        with suppress(ValueError):
            sys.meta_path.remove(self)

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """Return the other finders' spec of the watched module; None for other modules."""
        if name != self._name:
            return None
        others = [one.find_spec for one in sys.meta_path if one is not self and hasattr(one, "find_spec")]
        spec = next(filter(None, (find(name, path, target) for find in others)), None)
        if spec is not None and hasattr(spec.loader, "exec_module"):
            spec.loader = cast(Any, _Loader(spec.loader, self))
        return spec


class _Loader:
    def __init__(self, loader: Any, watch: ImportWatch) -> None:
        self._loader, self._watch = loader, watch

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def exec_module(self, module: ModuleType) -> None:
        assert module.__spec__ is not None
        module.__spec__.loader = module.__loader__ = self._loader
        try:
            self._loader.exec_module(module)
        except BaseException as error:
            drop_frame(error)
            raise
        self._watch.then()
