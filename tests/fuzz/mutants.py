"""Mutated recordings of every format through every analysis, the verdict, the text and the static page.

A Trace or a `NotebookProfError` may come of reading one, and whatever was read has to go through all analyses
with nothing but a `NotebookProfError`. ``make fuzz`` runs this for a while. JSON is mutated as values, the
rest as bytes, and native recordings as tables that are written with right checksums.
"""

import argparse
import copy
import gzip
import inspect
import json
import random
import sys
import tempfile
import time
import traceback
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd

from notebook_prof import NotebookProfError, Profile, Trace, analysis, read_trace
from notebook_prof.readers.registry import readers
from notebook_prof.writers.native import write_native
from tests import samples as recordings

DATA: Final = Path(__file__).parents[1] / "data"
LARGEST: Final = 150_000
VALUES: Final = (
    *(0, -1, 1, 2**31, 2**53, 2**63, -(2**63), 10**30, 1e308, -0.0, 0.5, float("nan"), float("inf")),
    *("", "x", "ProfilerStep#0", "nan", "-1", "1e999", "\ud800", "a" * 3000),
    *(None, True, [], {}, [[]], [1, "a"]),
)
"""What takes the place of a value of a file."""


@cache
def samples() -> tuple[Path, ...]:
    """Recordings that are small enough to mutate and that can be read, those beside the repository too."""
    listed = {
        recordings.path_of(name): "slices" in figures["rows"]
        for name, figures in recordings.expected().items()
    }
    files = sorted({*listed, *DATA.rglob("*")})
    small = [path for path in files if path.is_file() and path.stat().st_size <= LARGEST]
    return tuple(path for path in small if (listed[path] if path in listed else _is_read(path)))


def _is_read(path: Path) -> bool:
    with suppress(NotebookProfError):
        return len(read_trace(path).slices) > 0
    return False


def mutated(path: Path, drawn: random.Random) -> bytes:
    """The bytes of a file with some changes."""
    data = path.read_bytes()
    if data.startswith(b"\x1f\x8b") and drawn.random() < 0.8:
        with suppress(OSError, EOFError, zlib.error):
            data = gzip.decompress(data)
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return _bytes(data, drawn)
    if drawn.random() < 0.2:
        return _bytes(data, drawn)
    for _ in range(drawn.randint(1, 6)):
        value = _value(value, drawn)
    return json.dumps(value).encode("utf-8", "surrogatepass")


def _bytes(data: bytes, drawn: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(drawn.randint(1, 8)):
        at = drawn.randrange(len(changed) + 1)
        kind = drawn.randrange(4)
        if kind == 0 and at < len(changed):
            changed[at] = drawn.randrange(256)
        elif kind == 1:
            del changed[at : at + drawn.randrange(200)]
        elif kind == 2:
            changed[at:at] = changed[at : at + drawn.randrange(200)]
        else:
            changed[at : at + 8] = drawn.choice([b"\xff" * 8, b"\0" * 8, b"99999999"])
    return bytes(changed)


def _value(value: Any, drawn: random.Random) -> Any:
    """One change somewhere in a value of JSON."""
    node: Any = value
    for _ in range(12):
        if isinstance(node, dict) and node:
            key: Any = drawn.choice(list(node))
        elif isinstance(node, list) and node:
            key = drawn.randrange(len(node))
        else:
            return copy.deepcopy(drawn.choice(VALUES))
        if drawn.random() < 0.25 or not isinstance(node[key], dict | list) or not node[key]:
            break
        node = node[key]
    kind = drawn.randrange(5)
    if kind == 0:
        del node[key]
    elif kind == 1 and isinstance(node, list):
        node.insert(key, copy.deepcopy(node[key]))
    elif kind == 2:
        others = list(node.values()) if isinstance(node, dict) else node
        node[key] = copy.deepcopy(drawn.choice(others))
    else:
        node[key] = copy.deepcopy(drawn.choice(VALUES))
    return value


def tampered(trace: Trace, drawn: random.Random) -> Trace:
    """The same recording with changed cells in its tables, as a file with right checksums may hold them."""
    tables = {name: table.copy() for name, table in trace._tables.items()}
    for _ in range(drawn.randint(1, 4)):
        table = tables[drawn.choice(list(tables))]
        if not len(table):
            continue
        column = drawn.choice(list(table.columns))
        row = drawn.randrange(len(table))
        numbers = (0, -1, 1, len(table), 2**31 - 1, 2**62, -(2**62))
        if isinstance(table[column].dtype, np.dtype) and table[column].dtype.kind in "iuf":
            kind = table[column].to_numpy().copy()
            with np.errstate(over="ignore", invalid="ignore"):
                kind[row] = np.asarray(drawn.choice(numbers)).astype(kind.dtype)
            table[column] = kind
        elif isinstance(table[column].dtype, pd.CategoricalDtype):
            code = table[column].cat.codes.to_numpy().copy()
            code[row] = drawn.choice([-1, len(table[column].cat.categories) - 1])
            table[column] = pd.Categorical.from_codes(code, dtype=table[column].dtype)
    return Trace(tables, metadata=trace.metadata, report=trace.report, span=trace.span)


def analyses() -> Iterator[tuple[str, Callable[[Trace], Any]]]:
    """All that take a Trace and need nothing else."""
    for name in sorted(analysis.__all__):
        function = getattr(analysis, name)
        if not inspect.isfunction(function):
            continue
        parameters = list(inspect.signature(function).parameters.values())
        needed = [one for one in parameters if one.default is one.empty and one.kind != one.VAR_KEYWORD]
        if parameters and parameters[0].name == "trace" and len(needed) == 1:
            yield name, function


def questions(trace: Trace) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Everything that a user may ask of a recording."""
    for name, function in analyses():
        yield name, lambda function=function: function(trace)  # type: ignore[misc]
    profile = Profile(trace)
    yield "text", lambda: repr(profile)
    yield "trust", lambda: str(profile.trust)
    yield "summary", lambda: profile.summary()
    yield "static page", lambda: profile._repr_mimebundle_()


def crashes(trace: Trace) -> Iterator[tuple[str, BaseException]]:
    """What fails with something that is not ours."""
    for name, ask in questions(trace):
        try:
            ask()
        except NotebookProfError:
            continue
        except Exception as error:
            yield name, error


def one(path: Path, number: int, folder: Path) -> list[tuple[str, BaseException]]:
    """One mutant of a file: everything that fails on it."""
    drawn = random.Random(f"{path.name}:{number}")
    file = folder / path.name
    file.write_bytes(mutated(path, drawn))
    name = drawn.choice([None, None, None, *(reader.name for reader in readers())])
    try:
        trace = read_trace(file, format=name, max_bytes=2**26)
        if drawn.random() < 0.2:
            write_native(tampered(trace, drawn), folder / "tampered.nbprof.zip")
            trace = read_trace(folder / "tampered.nbprof.zip")
    except NotebookProfError:
        return []
    except Exception as error:
        return [("read_trace", error)]
    return list(crashes(trace))


def main() -> None:
    """Mutate for ``--seconds``, and say what fails, once a place."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--first", type=int, default=0)
    options = parser.parse_args()
    until, failures, count, number = time.monotonic() + options.seconds, set(), 0, options.first
    with tempfile.TemporaryDirectory(prefix="nbp-mutants-") as folder:
        while time.monotonic() < until:
            for path in samples():
                for name, error in one(path, number, Path(folder)):
                    frames = traceback.extract_tb(error.__traceback__)
                    ours = [frame for frame in frames if "notebook_prof" in frame.filename]
                    last = (ours or frames)[-1]
                    failure = name, type(error).__name__, last.filename, last.lineno
                    if failure not in failures:
                        failures.add(failure)
                        sys.stdout.write(f"{path.name} {number} {name}: {error!r:.200}\n")
                        sys.stdout.writelines(traceback.format_list(ours[-2:]))
                        sys.stdout.flush()
                count += 1
                if time.monotonic() >= until:
                    break
            number += 1
    sys.stdout.write(f"{count} mutants, {len(failures)} places fail\n")
    sys.exit(bool(failures))


if __name__ == "__main__":
    main()
