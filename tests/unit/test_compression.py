"""Compression is told by the bytes, undone within a limit, and damage costs only what it hit."""

from __future__ import annotations

import gzip
import io
import itertools
import lzma
import shutil
import sys
import time
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from notebook_prof.errors import FormatError
from notebook_prof.readers import read_trace
from notebook_prof.readers.codec.compression import decompress, limit_for
from notebook_prof.readers.codec.stream import in_pieces
from notebook_prof.trace import ImportReport

TRACE = (
    b'{"schemaVersion": 1, "traceEvents": ['
    b'{"ph": "X", "cat": "cpu_op", "name": "a", "pid": 1, "tid": 1, "ts": 1, "dur": 2}]}'
)


def zipped(**files: bytes) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name.replace("__", "/"), content)
    return out.getvalue()


def zstd(content: bytes) -> bytes:
    return bytes(pa.compress(content, "zstd"))


@pytest.mark.parametrize("size", [1 << 20, (1 << 20) + 1, 3 << 20])
def test_members_that_swell_beyond_a_piece_are_followed_by_others(tmp_path: Path, size: int) -> None:
    path = tmp_path / "two"
    path.write_bytes(gzip.compress(b"x" * size) + gzip.compress(b"y" * 7) + gzip.compress(b"z"))
    report = ImportReport()
    pieces = in_pieces(path, report)
    assert b"".join(itertools.islice(pieces, 100)) == b"x" * size + b"y" * 7 + b"z"
    assert not report


def test_many_small_members_take_linear_time() -> None:
    member = gzip.compress(b"x", mtime=0)
    started = time.thread_time()
    assert len(decompress(member * 100_000, ImportReport())) == 100_000
    assert time.thread_time() - started < 15  # half a second; quadratic takes minutes


def members(content: bytes) -> bytes:
    """Many gzip members, none of them large."""
    return b"".join(gzip.compress(content[at : at + 900_000]) for at in range(0, len(content), 900_000))


PACKINGS: dict[str, Callable[[bytes], bytes]] = {
    "gzip members": members,
    "zstd frames": lambda b: zstd(b[:900_000]) + zstd(b[900_000:]),
    "zip beside others": lambda b: zipped(readme=b"x", **{"../../a.json": b, "/etc/b.txt": b"y"}),
    "gzip of gzip": lambda b: gzip.compress(members(b)),
    "zip of zip": lambda b: zipped(**{"a.zip": zipped(**{"a.json": b})}),
}


@pytest.mark.parametrize("kind", PACKINGS)
def test_a_bomb_is_refused_and_a_higher_limit_opens_it(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "in" / "bomb"
    path.parent.mkdir()
    path.write_bytes(PACKINGS[kind](TRACE + b" " * (32 << 20)))
    assert path.stat().st_size < 1 << 20
    tracemalloc.start()
    with pytest.raises(FormatError, match=r"bomb: .*larger than 1 MiB.*max_bytes="):
        read_trace(path, max_bytes=1 << 20)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 12 << 20
    assert len(read_trace(path, max_bytes=40 << 20)) == 1
    assert sorted(file.name for file in tmp_path.rglob("*")) == ["bomb", "in"]


def test_an_archive_that_lies_about_its_sizes_is_no_way_around_the_limit(tmp_path: Path) -> None:
    packed = bytearray(zipped(**{"a.json": TRACE + b" " * (32 << 20)}))
    size = len(TRACE) + (32 << 20)
    for _ in range(2):
        packed = packed.replace(size.to_bytes(4, "little"), (1000).to_bytes(4, "little"))
    path = tmp_path / "bomb"
    path.write_bytes(packed)
    with pytest.raises(FormatError, match=r"cannot be read|larger than"):
        read_trace(path, max_bytes=1 << 20)


def test_a_bomb_in_a_folder_is_refused(data: Path, tmp_path: Path) -> None:
    folder = tmp_path / "recording"
    shutil.copytree(data / "mindspore" / "v200_minddata", folder)
    file = folder / "pipeline_profiling_0.json"
    file.write_bytes(gzip.compress(file.read_bytes() + b" " * (32 << 20)))
    with pytest.raises(FormatError, match="larger than 1 MiB"):
        read_trace(folder, max_bytes=1 << 20)
    assert read_trace(folder).metadata["source"] == "mindspore"


def test_the_trace_of_an_archive_is_found_and_the_rest_counted(tmp_path: Path) -> None:
    path = tmp_path / "all.zip"
    path.write_bytes(zipped(readme=b"hello" * 999, **{"sub__t.json": TRACE}))
    assert read_trace(path).report["archive-files-not-read"].severity == "info"
    path.write_bytes(zipped(**{"rank0.json": TRACE, "rank1.json": TRACE + b" ", "../evil": b"x"}))
    issue = read_trace(path).report["archive-files-not-read"]
    assert (issue.severity, issue.count) == ("loss", 2)
    assert "rank1.json" in issue.example


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"PK\x03\x04 zip", "cut or is damaged, copy it again"),
        (b"PK\x05\x06" + b"\0" * 18, "without files"),
        (zipped(a=b"no", b=b"trace"), ""),
    ],
)
def test_archives_without_a_trace_are_refused(tmp_path: Path, content: bytes, words: str) -> None:
    path = tmp_path / "thing.zip"
    path.write_bytes(content)
    with pytest.raises(FormatError, match=rf"thing\.zip: .*zip archive.*{words}"):
        read_trace(path)


def test_a_bomb_is_refused_by_its_ratio(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No recording becomes 300 times larger; what is small may, up to a limit that is lower here."""
    monkeypatch.setattr(sys.modules[limit_for.__module__], "SMALL_BYTES", 4 << 20)
    text = TRACE.replace(b'"name": "a"', b'"name": "' + b"a" * (5 << 20) + b'"')
    packed, path = text, tmp_path / "bomb.json.gz"
    for options in ({}, {"format": "kineto"}, {}):
        packed = gzip.compress(packed)
        path.write_bytes(packed)
        with pytest.raises(FormatError, match="becomes larger than 4 MiB"):
            read_trace(path, **options)  # type: ignore[arg-type]


def _both(data: bytes, path: Path) -> list[tuple[bytes, set[str]]]:
    """What comes of the bytes as a whole and piece by piece, and what is told."""
    path.write_bytes(data)
    results = []
    for undo in (lambda report: decompress(data, report), lambda report: b"".join(in_pieces(path, report))):
        report = ImportReport()
        results.append((undo(report), {issue.code for issue in report}))
    return results


@pytest.mark.parametrize("size", [0, 1, 5000, 3 << 20])
def test_streams_of_xz_and_frames_of_zstd_follow_one_another(tmp_path: Path, size: int) -> None:
    text = bytes(i * i % 251 for i in range(size))
    packed = lzma.compress(text) + lzma.compress(b"end")
    for content in (packed, gzip.compress(packed), zstd(text) + zstd(b"end")):
        assert _both(content, tmp_path / "a") == [(text + b"end", set())] * 2


BREAKS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "zstd": zstd,
    "xz": lambda text: lzma.compress(text, preset=0),
}


@pytest.mark.parametrize("name", BREAKS)
def test_a_stream_that_breaks_off_gives_what_came_before(name: str, tmp_path: Path) -> None:
    text = b"".join(b"%d\n" % (i * i) for i in range(100_000))
    packed = BREAKS[name](text)
    for cut in (1, 9, 2000, len(packed) // 2):
        for content, codes in _both(packed[:-cut], tmp_path / "a"):
            assert text.startswith(content), cut
            assert len(content) > 0.2 * len(text), cut
            assert codes == {f"truncated-{name}"}, cut


@pytest.mark.parametrize("name", ["gzip", "xz"])
def test_damage_in_the_middle_costs_what_follows_it(name: str, tmp_path: Path) -> None:
    text = b"".join(b"%d\n" % (i * 7919 % 100_003) for i in range(100_000))
    packed = bytearray(BREAKS[name](text))
    packed[len(packed) // 2] ^= 0xFF
    for content, codes in _both(bytes(packed), tmp_path / "a"):
        assert content[:200_000] == text[:200_000]
        assert len(content) < len(text)
        assert codes == {f"truncated-{name}"}


def test_a_trace_in_xz_is_read(tmp_path: Path) -> None:
    (tmp_path / "run.json.xz").write_bytes(lzma.compress(TRACE))
    assert read_trace(tmp_path / "run.json.xz").slices["name"].tolist() == ["a"]
    with pytest.raises(FormatError, match="becomes larger than 256 MiB"):
        decompress(lzma.compress(b" " * (1 << 20), preset=0) * 257, ImportReport())


LINES = b"".join(b"%d,%d\n" % (i, i * i) for i in range(300_000)) * 4
WAYS: dict[str, Callable[[bytes], bytes]] = {
    "plain": bytes,
    "gzip": lambda text: gzip.compress(text, 1),
    "zstd": lambda text: zstd(text[: len(text) // 2]) + zstd(text[len(text) // 2 :]),
    "zip": lambda text: zipped(a=text),
    "zip of gzip": lambda text: zipped(a=gzip.compress(text, 1)),
    "gzip of zstd": lambda text: gzip.compress(zstd(text)),
}


@pytest.mark.parametrize("way", WAYS)
def test_the_text_is_never_in_memory_as_a_whole(tmp_path: Path, way: str) -> None:
    path = tmp_path / "unknown"
    path.write_bytes(WAYS[way](LINES))
    report = ImportReport()
    tracemalloc.start()
    at = 0
    for piece in in_pieces(path, report):
        assert piece == LINES[at : at + len(piece)]
        at += len(piece)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert at == len(LINES)
    assert peak < len(LINES) * 0.75
    assert not report
