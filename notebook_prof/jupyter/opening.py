"""``%profile_open``: a file of any profiler, as a Profile in this notebook."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final

from IPython.core.error import UsageError
from IPython.core.magic import Magics, line_magic, magics_class

from ..errors import NotebookProfError, nearest
from .run import deliver

MAGIC: Final = "%profile_open"
_FORMAT: Final = re.compile(r"\s*--format[ =]+(\S+)\s+(.*)|(.*?)\s+--format[ =]+(\S+)\s*", re.DOTALL)
_USAGE: Final = f"{MAGIC} [--format NAME] PATH"


@magics_class
class OpenMagics(Magics):  # type: ignore[misc]
    """``%profile_open``."""

    @line_magic  # type: ignore[untyped-decorator]
    def profile_open(self, line: str) -> None:
        """Open a recording, show it, and bind it to ``_profile`` and ``nbp.last``.

        ``%profile_open [--format NAME] PATH``

        PATH is a file or a folder in any format of ``nbp.list_formats()``, recognised by its content. Quotes
        are optional, even if it contains spaces. ``~`` is the home folder.
        """
        from ..profiles.files import open_profile

        path, format_name = split_line(line)
        try:
            profile = open_profile(_existing(path), format_name)
        except NotebookProfError as error:
            raise UsageError(f"{MAGIC}: {error}") from None
        except OSError as error:
            raise UsageError(f"{MAGIC}: {path!r} cannot be read: {error.strerror or error}") from None
        deliver(self.shell, profile)


def split_line(line: str) -> tuple[str, str | None]:
    """Split the line into the path and the format, which is None if not given.

    >>> split_line("--format kineto 'my run.json'"), split_line("my run.json")
    (('my run.json', 'kineto'), ('my run.json', None))
    """
    format_name: str | None = None
    path = line.strip()
    if match := _FORMAT.fullmatch(path):
        format_name, path = (match[1], match[2]) if match[1] else (match[4], match[3])
    path = path.strip()
    if len(path) > 1 and path[0] == path[-1] and path[0] in "\"'":
        path = path[1:-1]
    if not path or path.startswith("--"):
        raise UsageError(f"{MAGIC}: the path of a recording is missing: {_USAGE}")
    return path, format_name


def _existing(text: str) -> Path:
    path = Path(text).expanduser()
    if path.exists():
        return path
    folder = next(parent for parent in path.absolute().parents if parent.is_dir())
    there = f"{str(folder)!r} is there"
    if folder == path.absolute().parent:
        names = sorted(os.listdir(folder))[:1000]
        close = nearest(path.name, names)
        there += f"; {close}" if close.startswith("did") else ", and contains nothing of a similar name"
    raise UsageError(f"{MAGIC}: there is no file or folder {text!r}: {there}")
