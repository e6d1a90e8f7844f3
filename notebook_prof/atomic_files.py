"""Files that appear only when complete: a failed write leaves an existing file unchanged."""

from __future__ import annotations

import gzip
import io
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Final

from .errors import WriteError

PRIVATE: Final = 0o600
"""Mode of recordings and caches, since they contain source code, paths and machine names."""


@contextmanager
def atomic_file(path: str | os.PathLike[str], *, private: bool = False) -> Iterator[IO[bytes]]:
    """Open a file for writing. It replaces `path` when the block ends without an error."""
    # Pipes, ``/dev/stdout`` and other special files are written to directly. A `private` file is accessible
    # to its owner only; an existing file keeps its mode. Raises WriteError if the file cannot be written.
    try:
        target = Path(os.path.realpath(path))  # a link stays a link
        mode = _mode(target)
        if mode is not None and not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
            with open(target, "wb") as direct:
                yield direct
            return
        part = target.with_name(f".{target.name[:100]}.{secrets.token_hex(6)}.part")
        try:
            # created exclusively, so that no existing link is followed
            number = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE if private else 0o666)
            with open(number, "wb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            if mode is not None:
                with suppress(OSError):
                    os.chmod(part, stat.S_IMODE(mode))
            os.replace(part, target)
        finally:
            with suppress(OSError):
                part.unlink()
    except (OSError, ValueError) as error:
        if isinstance(error, WriteError) or (isinstance(error, ValueError) and "null" not in str(error)):
            raise
        raise cannot_write(path, error) from error


@contextmanager
def atomic_text(path: str | os.PathLike[str]) -> Iterator[IO[str]]:
    """Open a UTF-8 text file as `atomic_file` does, without converting line endings."""
    with atomic_file(path) as raw:
        text = io.TextIOWrapper(raw, encoding="utf-8", newline="\n", write_through=True)
        yield text
        text.detach()


@contextmanager
def atomic_gzip(path: str | os.PathLike[str]) -> Iterator[IO[bytes] | gzip.GzipFile]:
    """Open a private file as `atomic_file` does; it is compressed if its name ends in ``.gz``."""
    with atomic_file(path, private=True) as raw:
        if os.fspath(path).endswith(".gz"):
            # without time and name, so that equal contents give equal files
            with gzip.GzipFile(fileobj=raw, mode="wb", compresslevel=5, mtime=0, filename="") as packed:
                yield packed
        else:
            yield raw


def cannot_write(path: str | os.PathLike[str], error: Exception) -> WriteError:
    """Return an error that names the file and the reason, and says that nothing was lost."""
    why = getattr(error, "strerror", None) or str(error)
    return WriteError(f"{os.fspath(path)!r} could not be written: {why}; an existing file is unchanged")


def _mode(path: Path) -> int | None:
    try:
        return path.stat().st_mode
    except FileNotFoundError:
        return None
