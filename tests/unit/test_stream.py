"""Compressed files are read in pieces, a bar shows what takes long, an interrupt leaves nothing behind."""

from __future__ import annotations

import gzip
import threading
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

from notebook_prof.readers import read_trace
from notebook_prof.readers.codec.stream import ReadingProgress, in_pieces
from notebook_prof.trace import ImportReport

from .test_compression import zipped

LINES = b"".join(b"%d,%d\n" % (i, i * i) for i in range(300_000)) * 4
GENERIC = b'{"traceEvents": [{"ph": "B", "name": "a", "ts": 1}, {"ph": "E", "ts": 2}]}'


def zstd(content: bytes) -> bytes:
    library = pytest.importorskip("zstandard")
    half = len(content) // 2
    return b"".join(library.ZstdCompressor().compress(part) for part in (content[:half], content[half:]))


@pytest.mark.parametrize(
    "pack",
    [
        bytes,
        lambda text: gzip.compress(text, 1),
        zstd,
        lambda text: zipped(a=text),
        lambda text: zipped(a=gzip.compress(text, 1)),
        lambda text: gzip.compress(zstd(text)),
    ],
    ids=["plain", "gzip", "zstd", "zip", "zip of gzip", "gzip of zstd"],
)
def test_the_text_is_never_in_memory_as_a_whole(tmp_path: Path, pack: Callable[[bytes], bytes]) -> None:
    path = tmp_path / "unknown"
    path.write_bytes(pack(LINES))
    report = ImportReport()
    tracemalloc.start()
    pieces = in_pieces(path, report)
    at = 0
    for piece in pieces:
        assert piece == LINES[at : at + len(piece)]
        at += len(piece)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert at == len(LINES)
    assert peak < len(LINES) * 0.75
    assert not report


def test_an_archive_inside_of_another_compression_is_read(tmp_path: Path) -> None:
    path = tmp_path / "unknown"
    path.write_bytes(gzip.compress(zipped(a=GENERIC)))
    assert b"".join(in_pieces(path, ImportReport())) == GENERIC
    assert read_trace(path).slices["name"].tolist() == ["a"]


def test_a_bar_appears_while_a_reader_is_busy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "busy.bin"
    path.write_bytes(b"x" * 100)
    monkeypatch.setattr("notebook_prof.readers.codec.stream.PATIENCE_S", 0.01)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    shown = threading.Event()
    real = ReadingProgress._show
    monkeypatch.setattr(ReadingProgress, "_show", lambda self: (real(self), shown.set()))
    with ReadingProgress(path) as progress:
        progress._position = 100
        assert shown.wait(60)
    assert "busy.bin: making tables" in capsys.readouterr().err
