"""A bar for what takes more than two seconds."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Final

PATIENCE_S: Final = 2.0


class Progress:
    """Shows how far a file has been read, from two seconds on.

    Nothing is imported or shown before. In a notebook it is a widget, on a terminal a line that goes away;
    where output goes to a file, nothing.

    Parameters
    ----------
    path : Path
        Its name and size are shown.

    Examples
    --------
    >>> with Progress(Path(__file__)) as progress:
    ...     progress.at(10)
    """

    def __init__(self, path: Path) -> None:
        self._name, self._size = path.name, path.stat().st_size
        self._begin = time.monotonic()
        self._bar: Any = None

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.close()

    def at(self, position: int) -> None:
        """Tell how many bytes of the file have been read."""
        if self._bar is None:
            if time.monotonic() - self._begin < PATIENCE_S:
                return
            self._bar = _bar(self._name, self._size)
        self._bar.update(position - self._bar.n)


def _bar(name: str, size: int) -> Any:
    from tqdm.auto import tqdm

    in_notebook = any(base.__name__ == "tqdm_notebook" for base in tqdm.__mro__)
    return tqdm(
        total=size,
        desc=name,
        unit="B",
        unit_scale=True,
        unit_divisor=1024,
        leave=False,
        disable=not in_notebook and not sys.stderr.isatty(),
    )
