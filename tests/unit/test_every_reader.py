"""What holds for every reader: a bar, a clean stop, and nothing that a hostile file can do."""

from __future__ import annotations

import gzip
import json
import multiprocessing
import signal
import tempfile
import threading
from pathlib import Path
from typing import Any, ClassVar

import pytest

from notebook_prof import open_profile
from notebook_prof.errors import FormatError, NotebookProfError, OptionError
from notebook_prof.readers import list_formats, read_trace
from notebook_prof.readers.codec import stream
from notebook_prof.trace import Trace, TraceBuilder

from ..properties.test_damage import CASES, content

FILES = dict(reversed(CASES))
EVENT = {"ph": "X", "cat": "cpu_op", "name": "a", "ts": 1, "dur": 2, "pid": 1, "tid": 1}
HEADS = {
    "kineto": '{"schemaVersion": 1, "traceEvents": [',
    "trace_event": '{"traceEvents": [',
    "paddle": '{"schemaVersion": "1.0.2", "span_indx": "0", "traceEvents": [',
    "jax": '{"displayTimeUnit": "ns", "metadata": {"highres-ticks": true}, "traceEvents": [',
    "viztracer": '{"viztracer_metadata": {"version": "1.1"}, "traceEvents": [',
    "megengine": '{"metadata": {"localTime": "1"}, "traceEvents": [',
    "mindspore": '[{"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "Ascend Hardware"}}, ',
}


@pytest.fixture(params=FILES)
def sample(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = tmp_path / "unknown"
    path.write_bytes(content(FILES[request.param]))
    return path


class Bar:
    """What stands for tqdm."""

    made: ClassVar[list[Bar]] = []

    def __init__(self, name: str, size: int) -> None:
        self.total: int | None = size
        self.n, self.closed = 0, False
        Bar.made.append(self)

    def update(self, count: int) -> None:
        self.n += count

    def set_description(self, text: str, refresh: bool = True) -> None:
        self.text = text

    def refresh(self) -> None:
        pass

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def bars(monkeypatch: pytest.MonkeyPatch) -> list[Bar]:
    """Bars come at once, and reading waits until there is one."""
    Bar.made.clear()
    shown = threading.Event()
    monkeypatch.setattr(stream, "PATIENCE_S", -1.0)
    monkeypatch.setattr(stream, "_bar", lambda name, size: (Bar(name, size), shown.set())[0])
    real = stream.ReadingProgress.__exit__

    def patient(self: stream.ReadingProgress, *error: Any) -> None:
        shown.wait(60)
        real(self, *error)

    monkeypatch.setattr(stream.ReadingProgress, "__exit__", patient)
    return Bar.made


def test_a_bar_is_shown_and_taken_away(sample: Path, bars: list[Bar]) -> None:
    before = set(threading.enumerate())
    read_trace(sample)
    assert [bar.closed for bar in bars] == [True]
    assert threads_since(before) == []


def threads_since(before: set[threading.Thread]) -> list[str]:
    """Threads of ours; what a display of another test shows later is not a reader's."""
    names = [thread.name for thread in set(threading.enumerate()) - before]
    return [name for name in names if name.startswith("notebook_prof") and name != "notebook_prof late"]


def test_an_interrupt_leaves_nothing(sample: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*args: object, **options: object) -> None:
        signal.raise_signal(signal.SIGINT)

    threads, children = set(threading.enumerate()), set(multiprocessing.active_children())
    # who starts tests in the background ignores it
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    monkeypatch.setattr(TraceBuilder, "seal", interrupted)
    monkeypatch.setattr(Trace, "__init__", interrupted)
    try:
        with pytest.raises(KeyboardInterrupt):
            read_trace(sample)
    finally:
        signal.signal(signal.SIGINT, before)
    assert threads_since(threads) == []
    assert set(multiprocessing.active_children()) <= children
    assert list(scratch.iterdir()) == []


def hostile() -> dict[str, str]:
    """Events that a sound program never writes, as text that follows the head of a file."""
    long, deep = "x" * 2_000_000, "[" * 20_000 + "]" * 20_000
    keys = ", ".join(f'"k": {i}' for i in range(20_000))
    many = ", ".join(f'"k{i}": {i}' for i in range(20_000))
    begins = [{**EVENT, "ph": "B", "ts": i} for i in range(3_000)]
    return {
        "one name of two million letters": json.dumps({**EVENT, "name": long}),
        "arguments of twenty thousand levels": json.dumps(EVENT)[:-1] + f', "args": {{"x": {deep}}}}}',
        "one key many times": json.dumps(EVENT)[:-1] + f', "args": {{{keys}}}}}',
        "many keys": json.dumps(EVENT)[:-1] + f', "args": {{{many}}}}}',
        "a time of many digits": json.dumps(EVENT).replace('"ts": 1', '"ts": ' + "9" * 200_000),
        "a process of many digits": json.dumps(EVENT).replace('"pid": 1', '"pid": ' + "9" * 200_000),
        "huge exponents": ", ".join(json.dumps(EVENT).replace("2", f"1e{10**k}") for k in range(9)),
        "quotes": json.dumps(EVENT).replace('"a"', '"' + '"' * 20_000 + '"'),
        "backslashes": json.dumps(EVENT).replace('"a"', '"' + "\\" * 20_001 + '"'),
        "begins without end": ", ".join(map(json.dumps, begins)),
        "many threads": ", ".join(json.dumps({**EVENT, "tid": i}) for i in range(300)),
        "half a surrogate": json.dumps({**EVENT, "name": "\ud800"}),
        "latin-1": json.dumps({**EVENT, "name": "café"}, ensure_ascii=False),
    }


@pytest.mark.parametrize("name", HEADS)
def test_hostile_events_are_read_or_refused(name: str, tmp_path: Path) -> None:
    path = tmp_path / "unknown"
    whole = HEADS[name] + json.dumps(EVENT) + ("]}" if HEADS[name].startswith("{") else "]")
    path.write_text(whole)
    sound = _read(path)
    assert isinstance(sound, Trace)
    for label, event in hostile().items():
        text = whole.replace(json.dumps(EVENT), event + ", " + json.dumps(EVENT))
        path.write_bytes(text.encode("latin-1" if label == "latin-1" else "utf-8"))
        result = _read(path)
        assert result is not None, label
        if isinstance(result, Trace):
            # what follows is read all the same
            assert len(result.slices) >= len(sound.slices), label
    for label, packed in (
        ("byte-order mark and zeros", b"\xef\xbb\xbf" + whole.encode() + b"\x00" * 9_999),
        ("spaces before", b" \n" * 5_000 + whole.encode()),
    ):
        path.write_bytes(packed)
        result = _read(path)
        assert isinstance(result, Trace), label
        assert len(result.slices) == len(sound.slices), label
    path.write_bytes(whole.encode("utf-16"))
    with pytest.raises(FormatError):
        read_trace(path)


def _read(path: Path) -> Trace | NotebookProfError:
    try:
        return read_trace(path)
    except NotebookProfError as error:
        return error


def test_a_profile_is_opened_with_the_same_limits_and_options(tmp_path: Path) -> None:
    text = HEADS["kineto"] + json.dumps(EVENT) + "]}" + " " * 200_000
    path = tmp_path / "unknown"
    path.write_bytes(gzip.compress(text.encode()))
    with pytest.raises(FormatError, match="max_bytes="):
        open_profile(path, max_bytes=100_000)
    assert len(open_profile(path, max_bytes=300_000).trace) == 1
    with pytest.raises(OptionError, match="fp_point"):
        open_profile(path, fp_point="a")


def test_the_documentation_has_every_format() -> None:
    text = (Path(__file__).parents[2] / "docs" / "formats.md").read_text()
    assert [name for name in list_formats()["format"] if f"`{name}`" not in text] == []
