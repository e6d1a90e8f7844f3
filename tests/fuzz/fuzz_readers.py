"""A coverage-guided fuzzer of every reader: ``make fuzz``.

Each input is bytes that ``read_trace`` opens as a file, and then, reader by reader, as that format.
Only a Trace or a NotebookProfError may come of it: anything else is a crash, which atheris saves.
The samples in ``tests/data`` are where it starts from.
"""

import argparse
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["notebook_prof"]):
    from notebook_prof import NotebookProfError, list_formats, read_trace

DATA = Path(__file__).parents[1] / "data"
LARGEST = 30_000
FORMATS = [None, *list_formats()["format"]]


def samples() -> Iterator[Path]:
    """Sound and damaged files that are small enough to mutate."""
    for path in sorted(DATA.rglob("*")):
        if path.is_file() and path.stat().st_size <= LARGEST:
            yield path


def one_input(data: bytes) -> None:
    """Open `data`; the first byte says as which format."""
    if not data:
        return
    name = FORMATS[data[0] % len(FORMATS)]
    with tempfile.TemporaryDirectory(prefix="nbp-fuzz-") as folder:
        path = Path(folder) / "unknown"
        path.write_bytes(data[1:])
        try:
            read_trace(path, format=name, max_bytes=2**24)
        except NotebookProfError:
            return


def main() -> None:
    """Fuzz for ``--seconds``; what else is given goes to libFuzzer."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=60)
    options, others = parser.parse_known_args()
    with tempfile.TemporaryDirectory(prefix="nbp-corpus-") as corpus:
        for i, path in enumerate(samples()):
            (Path(corpus) / f"{i}-{path.name}").write_bytes(b"\0" + path.read_bytes())
        flags = [
            f"-max_total_time={options.seconds}",
            f"-max_len={LARGEST}",
            "-timeout=20",
            "-rss_limit_mb=2048",
        ]
        atheris.Setup([sys.argv[0], *flags, *others, corpus], one_input)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
