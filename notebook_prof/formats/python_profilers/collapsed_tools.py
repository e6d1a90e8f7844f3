"""Recognises the tool that wrote collapsed stacks, and reads its threads and frames."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np

from ...errors import FormatError
from ...readers.call_tree import CallFrame
from ...trace.builder import TraceBuilder
from .viztracer import frame_of

_HEAD_LINES: Final = 200
_LARGEST: Final = 2**63
_MOST_DIGITS: Final = 6
"""Most digits of a count: a million samples of one path are hours, a million nanoseconds are 1 ms."""

_LINE: Final = re.compile(rb"[^\s;{][^\x00-\x08\x0e-\x1f]*?[ \t](?:\d+(?:\.\d*)?|\.\d+)\s*")
_AUSTIN_LINE: Final = re.compile(rb"P\d{1,18};T[^\x00-\x08\x0e-\x1f]*[ \t]\d+(?:,\d+,-?\d+)?\s*")
_AUSTIN_HEAD: Final = re.compile(rb"P\d{1,18};T[^;]*;?")
_AUSTIN_BYTES: Final = re.compile(rb"P\d{1,18};T[^\x00-\x08\x0e-\x1f]*[ \t]-\d+\s*")
_AUSTIN_START: Final = re.compile(rb"P\d{1,18};T(?:(?:0x)?[0-9A-Fa-f]+:)?[0-9A-Fa-f]+[; \t]")
_TACHYON_START: Final = re.compile(rb"tid:\d+;")
_TACHYON_HEAD: Final = re.compile(rb"(?:tid:\d+(?:;|$))?")
_PY_SPY_START: Final = re.compile(rb'process \d{1,18}:"|thread \((?:\d+|0x[0-9A-Fa-f]+)\)[:; ]')
_THREAD: Final = rb"thread \((?:\d+|0x[0-9A-Fa-f]+)\)(?:: [^;]*)?(?:;|$)"
_PY_SPY_HEAD: Final = re.compile(rb'(?:process \d{1,18}:".*?"(?:;|$))*(?:' + _THREAD + rb")?")
_PROCESS: Final = re.compile(r'process (\d+):"(.*?)"(?:;|$)')
_NAMED_THREAD: Final = re.compile(r"thread \((\w+)\)(?:: ([^;]*))?;?$")
_NATIVE_LOCATION: Final = re.compile(r"((?:[A-Za-z]:)?[^:]*):(?!:)(.*)", re.DOTALL)


class ThreadLabel(NamedTuple):
    """The thread named at the start of a line; command is that of its process, if given."""

    name: str
    pid: int | None = None
    tid: int | None = None
    command: str = ""


class Kind(NamedTuple):
    """The lines that one tool writes."""

    tool: str  # as in ``metadata["exporter"]``; empty if unknown
    line: re.Pattern[bytes]  # a whole line that can be used
    start: re.Pattern[bytes]  # begins every line, if the tool is recognised by that
    head: re.Pattern[bytes]  # the start of a path that names process and thread; it may match nothing
    labels: Callable[[Sequence[bytes]], list[ThreadLabel]]  # from all heads of a file to its threads
    frame: Callable[[str], CallFrame]
    weight_ns: float  # what a weight of 1 stands for; 1 if unknown
    advice: str  # what to do about weights without a unit


def kind_of(lines: Sequence[bytes], header: bool) -> Kind:
    """Return the tool that writes such lines; `header` is whether Austin's header precedes them."""
    if header:
        return AUSTIN
    sound = [line for line in lines[:_HEAD_LINES] if is_path(line)]
    whole = all(_AUSTIN_LINE.fullmatch(line) or is_negative(line) for line in sound)
    for kind in (AUSTIN, TACHYON, PY_SPY) if whole else (TACHYON, PY_SPY):
        if sound and all(map(kind.start.match, sound)):
            return kind
    return PY_SPY if _all_labels(sound) else PLAIN


def _all_labels(lines: Sequence[bytes]) -> bool:
    """Return whether all frames have a place, as py-spy writes them, and weights may be counts."""
    # We write such frames too, with weights in nanoseconds.
    paths = [line.rsplit(None, 1) for line in lines]
    return any(b"<module> (" in path for path, _ in paths) and all(
        number.isdigit()
        and len(number) <= _MOST_DIGITS
        and all(frame.endswith(b")") and b" (" in frame for frame in path.split(b";"))
        for path, number in paths
    )


def is_path(line: bytes) -> bool:
    """Return whether a line is a call path with a weight, as any of the tools writes it."""
    return any(pattern.fullmatch(line) for pattern in (_LINE, _AUSTIN_LINE, _AUSTIN_BYTES))


def is_negative(line: bytes) -> bool:
    """Return whether it is a line of Austin about a loss of memory."""
    return _AUSTIN_BYTES.fullmatch(line) is not None


def bracket_frame(text: str) -> CallFrame:
    """Return a frame like ``step (train.py:9)``; any other text is a function."""
    return frame_of(text) or CallFrame(text, "", 0)


def py_spy_frame(text: str) -> CallFrame:
    """Return a frame of py-spy: ``step (train.py:9)``, or without a line.

    >>> py_spy_frame("deflate (libz.so)"), py_spy_frame("<idle>").function
    (CallFrame(function='deflate', file='libz.so', line=0), '<idle>')
    """
    if (frame := frame_of(text)) is not None:
        return frame
    function, _, file = text.removesuffix(")").rpartition(" (")
    known = text.endswith(")") and function and file
    return CallFrame(function, file, 0) if known else CallFrame(text, "", 0)


def colon_frame(text: str) -> CallFrame:
    """Read a frame like ``train.py:step:9``, as Austin and Tachyon write it; ``:GC:`` has no place.

    >>> colon_frame("C:\\\\a\\\\train.py:step:9")
    CallFrame(function='step', file='C:\\\\a\\\\train.py', line=9)
    """
    if len(text) > 2 and text.startswith(":") and text.endswith(":"):
        return CallFrame(text.strip(":") or text, "", 0)
    path, _, number = text.rpartition(":")
    if not (digits := number.removeprefix("-")).isdecimal() or len(digits) > 9:
        return CallFrame(text, "", 0)
    if "::" in path and (match := _NATIVE_LOCATION.fullmatch(path)):
        file, function = match[1], match[2]
    else:
        file, _, function = path.rpartition(":")
    if file.startswith("native@"):  # an address; the number is an offset
        return CallFrame(function, "", 0)
    return CallFrame(function or text, file, max(int(number), 0))


def _austin_labels(thread_heads: Sequence[bytes]) -> list[ThreadLabel]:
    """Read ``P<process>;T<interpreter>:<thread>``; Austin writes identifiers in hex on Windows."""
    parts = [head.decode(errors="replace").rstrip(";").partition(";T") for head in thread_heads]
    identifiers = [thread.partition(":") for _, _, thread in parts]
    inside = [(first, last) if colon else ("0", first) for first, colon, last in identifiers]
    threads = [thread for _, thread in inside]
    base = 10 if all(map(_is_decimal, threads)) else 16 if all(map(_is_hex, threads)) else 0
    labels = []
    for (process, _, _), (interpreter, thread) in zip(parts, inside, strict=True):
        tid = int(thread, base or 10) if base or _is_decimal(thread) else None
        name = thread if tid is None else f"thread {thread}"
        if interpreter.strip("0"):  # its thread may be the main interpreter's too
            name, tid = f"interpreter {interpreter}, {name}", None
        labels.append(ThreadLabel(name, int(process[1:]), tid))
    return labels


def _tachyon_labels(heads: Sequence[bytes]) -> list[ThreadLabel]:
    """Read ``tid:<thread>``."""
    labels = []
    for head in heads:
        number = head.decode().rstrip(";").removeprefix("tid:")
        tid = int(number) if _is_decimal(number) else None
        labels.append(ThreadLabel(f"thread {number}" if number else "main", None, tid))
    return labels


def _py_spy_labels(thread_heads: Sequence[bytes]) -> list[ThreadLabel]:
    """Read ``process 7:"python a.py"``, parents first, and ``thread (7): MainThread``."""
    labels, numbers = [], []
    for head in thread_heads:
        text = head.decode(errors="replace")
        *_, (process, command) = [("", ""), *_PROCESS.findall(text)]
        thread = _NAMED_THREAD.search(_PROCESS.sub("", text))
        number = thread[1] if thread else ""
        base = 16 if number.startswith("0x") else 10
        numbers.append(number)
        readable = _is_hex(number[2:]) if base == 16 else _is_decimal(number)
        whole = f"process {process}" if process else "main"
        name = whole if thread is None else thread[2] or ""
        pid, tid = int(process) if process else None, int(number, base) if readable else None
        labels.append(ThreadLabel(name, pid, tid, command))
    # a thread has no name before Python has begun to run in it
    names = {(label.pid, label.tid): label.name for label in reversed(labels) if label.name}
    return [
        label._replace(name=label.name or names.get((label.pid, label.tid)) or f"thread {number}")
        for label, number in zip(labels, numbers, strict=True)
    ]


def _is_decimal(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) < 19


def _is_hex(text: str) -> bool:
    return re.fullmatch("[0-9A-Fa-f]{1,16}", text) is not None and int(text, 16) < _LARGEST


_COUNTS: Final = "weights count samples, and one is shown as 1 ns: say how long one is with sample_ns=, as"
_ADVICE: Final = {
    "": "weights are taken as nanoseconds: sample_ns= says otherwise",
    "tachyon": f"{_COUNTS} sample_ns=1_000_000 where 1,000 a second were taken",
    "py-spy": f"{_COUNTS} sample_ns=10_000_000 for 100 a second, py-spy's default",
}
PLAIN: Final = Kind(
    "", _LINE, _LINE, re.compile(b""), lambda heads: [ThreadLabel("main")], bracket_frame, 1.0, _ADVICE[""]
)
AUSTIN: Final = Kind(
    "austin", _AUSTIN_LINE, _AUSTIN_START, _AUSTIN_HEAD, _austin_labels, colon_frame, 1000.0, ""
)
TACHYON: Final = Kind(
    "tachyon", _LINE, _TACHYON_START, _TACHYON_HEAD, _tachyon_labels, colon_frame, 1.0, _ADVICE["tachyon"]
)
PY_SPY: Final = Kind(
    "py-spy", _LINE, _PY_SPY_START, _PY_SPY_HEAD, _py_spy_labels, py_spy_frame, 1.0, _ADVICE["py-spy"]
)


# Data that Austin writes beside its stacks: a header, and numbers that are times, memory or both.

_WITHIN: Final = 4096
_HEADER: Final = re.compile(rb"^# austin: \S", re.MULTILINE)
_FACT: Final = re.compile(
    rb"^# (austin|interval|mode|memory|multiprocess|gc|duration): *([^\r\n]{1,80})", re.M
)
_TIMED: Final = ("wall", "cpu", "full")
_BYTES: Final = (
    "its numbers are bytes, and none is a time. Record again without -m (--memory) for times, or draw the "
    "bytes with flamegraph.pl or speedscope.app"
)


def has_header(data: bytes) -> bool:
    """Return whether a file begins with Austin's header."""
    return data.lstrip(b"\x00\r\n \t").startswith(b"# ") and _HEADER.search(data[:_WITHIN]) is not None


def facts(data: bytes) -> dict[str, str]:
    """Return what header and footer say: ``version``, ``mode``, ``interval`` and ``duration`` in µs, ….

    >>> facts(b"# austin: 3.7.0\\n# mode: wall\\n\\nP1;T0:1;a.py:f:3 9\\n\\n# duration: 9\\n")
    {'version': '3.7.0', 'mode': 'wall', 'duration': '9'}
    """
    pairs = [(key.decode(), value.decode(errors="replace").strip()) for key, value in _FACT.findall(data)]
    named = {"version" if key == "austin" else key: value for key, value in pairs}
    if named.get("mode") == "memory":
        raise FormatError(f"Austin recorded memory ('mode: memory'): {_BYTES}")
    return named


def check_times(
    header: Mapping[str, str], lines: Sequence[bytes], unit_given: bool, builder: TraceBuilder
) -> None:
    """Report that neither the file nor the caller says that the numbers are microseconds."""
    mode = header.get("mode", "")
    if mode in _TIMED:
        return
    # only changes of memory can be negative
    if (lost := next(filter(is_negative, lines), None)) is not None:
        end = lost[-40:].decode(errors="replace")
        raise FormatError(f"Austin recorded memory, since {end!r} is a loss: {_BYTES}")
    if unit_given:
        return
    example = f"'# mode: {mode}'" if mode else "no line '# mode:'"
    effect = "weights are taken as microseconds, as Austin writes times"
    advice = "if they are bytes (-m), do not use the times; sample_ns= says what a weight of 1 is"
    builder.report.add("unit-assumed", "info", example=example, effect=effect, advice=advice)


def times(numbers: Sequence[bytes], builder: TraceBuilder) -> list[bytes]:
    """Return the times of ``time,idle,memory``, and of samples that have only a time."""
    parts = [number.split(b",") for number in numbers]
    whole = [part for part in parts if len(part) == 3]
    if whole:
        idle = sum(part[1].strip(b"0") != b"" for part in whole)
        change = np.array([float(part[2]) for part in whole])
        grown, shrunk = np.maximum(change, 0).sum(), np.minimum(change, 0).sum()
        example = f"{idle:,} of {len(whole):,} samples idle, memory +{grown:,.0f} and {shrunk:,.0f} bytes"
        effect = "the time of a sample counts, idle or not; idle states and memory are left out"
        advice = "record with -s instead of -f for time on the CPU alone"
        builder.report.add("metrics-not-used", "loss", len(whole), example, effect, advice)
    return [part[0] for part in parts]


def in_order(header: Mapping[str, str], paths: Sequence[bytes]) -> bool:
    """Return whether samples follow one another without gaps."""
    # They do not if idle threads are left out, or if every path is there once, as austin-compress leaves
    # them.
    return header.get("mode") != "cpu" and len(set(paths)) < len(paths)
