"""A further process, as seen from the one that reads a file."""

from __future__ import annotations

import io
import json
import mmap
import os
import pickle
import select
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, TypeAlias, cast

import msgspec
import numpy as np

from ..processes import ShareLost
from .rows import OldArguments
from .split import EventText
from .taking import Taken, Taker
from .worker import DONE, SLOTS

SHARE_BYTES: Final = 1088 << 10
"""How much text it is given at a time. Little, as at the end one process may wait for another."""

SLOT_BYTES: Final = (2 << 20) + (64 << 10)
"""How much it is given at most."""

_START: Final = """
import json, sys, types
paths, packages, *told = json.loads(sys.argv[1])
sys.path += paths
for name, folder in packages:
    sys.modules[name] = types.ModuleType(name)
    sys.modules[name].__path__ = [folder]
from {package}.worker import work
work(*told)
"""
"""The modules are imported without the packages around them, which would import pandas."""

_Pipes: TypeAlias = tuple[io.FileIO, io.FileIO]
_THREADS: Final = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")


class Mate:
    """Starts a process that runs `worker.work`, gives it events, and takes what it has made of them.

    Parameters
    ----------
    taker : Taker
        The process takes events as this one does.
    """

    def __init__(self, taker: Taker) -> None:
        self._given = self._free = 0
        self._process: subprocess.Popen[bytes] | None = None
        with suppress(OSError, ValueError), _memory() as file:
            self._slots = mmap.mmap(file.fileno(), SLOTS * SLOT_BYTES)
            old = issubclass(taker.small, OldArguments)
            self._process = _started(file.fileno(), [SLOT_BYTES, old, taker.array])
            self._orders, self._answers = cast("_Pipes", (self._process.stdin, self._process.stdout))
            self._poll = select.poll()
            self._poll.register(self._answers, select.POLLIN | select.POLLHUP)

    def is_free(self) -> bool:
        """Whether there is a free slot; does not wait."""
        if self._process is not None and self._poll.poll(0):
            self._listen()
        return self._free > 0

    def give(self, text: EventText, at_least: int) -> bool:
        """Fill a slot; False if nothing fits that is not the end of the file."""
        begin = self._given % SLOTS * SLOT_BYTES
        at, lengths = begin, [self._given % SLOTS]
        while at == begin or at + at_least <= begin + SHARE_BYTES:
            part, last = text.peek(at_least)
            if last or at + len(part) > begin + SLOT_BYTES:
                break
            self._slots[at : at + len(part)] = part
            lengths.append(len(part))
            at += len(part)
            text.skip()
        if at == begin:
            return False
        self._given += 1
        self._free -= 1
        self._tell(" ".join(map(str, lengths)))
        return True

    def taken(self) -> Taken:
        """What it has taken; waits for its last part."""
        if self._process is None or not self._given:
            return Taken({}, [], [])
        while self._free < SLOTS:
            self._listen()
        self._tell("")
        try:
            taken: Taken = pickle.load(io.BufferedReader(self._answers))
        except (OSError, EOFError, pickle.UnpicklingError) as error:
            raise ShareLost from error
        return taken

    def end(self) -> None:
        """Kill it, whatever it does, and forget it."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._orders.close()
            self._answers.close()
            self._process, self._free = None, 0
            self._slots.close()

    def _listen(self) -> None:
        """Wait until it says something."""
        said = self._answers.read(SLOTS) or b""
        if said.strip(DONE) or (self._given and not said):
            raise ShareLost
        if not said:  # it could not be started
            self.end()
        self._free += len(said)

    def _tell(self, order: str) -> None:
        try:
            self._orders.write(f"{order}\n".encode())
        except OSError as error:
            raise ShareLost from error


def _started(memory: int, told: list[Any]) -> subprocess.Popen[bytes]:
    arguments = json.dumps([*_imports(), memory, *told])
    return subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", _START.format(package=__package__), arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        bufsize=0,
        pass_fds=(memory,),
        start_new_session=True,  # Ctrl-C is for the first process, which ends the others
        env={**os.environ, **_THREADS},
    )


@contextmanager
def _memory() -> Iterator[Any]:
    """A file in memory that has no name, for the slots."""
    made = getattr(os, "memfd_create", None)
    with open(made("notebook_prof"), "r+b", 0) if made else tempfile.TemporaryFile(buffering=0) as file:
        file.truncate(SLOTS * SLOT_BYTES)
        yield file


def _imports() -> tuple[list[str], list[tuple[str, str]]]:
    """Where a worker finds the modules that it imports, and the folders of our packages."""
    files = [np.__file__, msgspec.__file__, getattr(find_spec("pyarrow"), "origin", None)]
    paths = {str(Path(file).parents[1]) for file in files if file}
    here, name = Path(__file__).parent, str(__package__)
    packages = [(name, str(here))]
    while "." in name:
        name, here = name.rpartition(".")[0], here.parent
        packages.append((name, str(here)))
    packages.append((f"{name}.trace", str(here / "trace")))
    return sorted(paths), packages
