"""Reads the bytes of a ``.paddle_trace.pb`` file as columns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec

from ...errors import FormatError
from ...readers.codec.protobuf import Span, WireError, fields, float32, mapping, numbers, signed, text
from ...trace.report import ImportReport
from .columns import (
    DEVICE_COLUMNS,
    DEVICE_TYPES,
    EVENT_TYPES,
    INPUT_COLUMNS,
    MEMORY_COLUMNS,
    MEMORY_TYPES,
    ROW_COLUMNS,
    PaddleColumns,
    event_type,
    frame,
    shapes_text,
)

_LIMIT: Final = 1 << 62
_OPERATOR: Final = EVENT_TYPES.index("Operator")
_DEVICE_FACTS: Final = (
    "", "id", "name", "totalGlobalMem", "computeMajor", "computeMinor", "maxThreadsPerBlock",
    "maxThreadsPerMultiprocessor", "regsPerBlock", "regsPerMultiprocessor", "warpSize", "sharedMemPerBlock",
    "sharedMemPerMultiprocessor", "smCount", "sharedMemPerBlockOptin",
)  # fmt: skip
"""Names of the fields, numbered from 1."""

_Supplement = tuple[dict[str, Any], dict[str, Any], str]
"""Shapes and variable kinds of an operator's inputs, by argument, and its call stack."""


def read_protobuf(data: bytes, report: ImportReport) -> PaddleColumns:
    """Read the tree of events, in exact nanoseconds, that Paddle writes with ``export_protobuf``."""
    # Paddle records input shapes on an operator's inner event; here the operator itself has them.
    file = _PaddleMessages(data, report)
    try:
        for number, value in fields(data, (0, len(data))):
            file.root(number, value)
    except WireError as error:
        report.truncated(
            str(error),
            "the last thread's events, thread names and devices may be missing",
            advice="the writing process was probably killed, or the copy is not complete",
        )
    if not file.facts and not file.rows:
        raise FormatError("it holds no version and no threads: this is not a trace of paddle.profiler")
    return PaddleColumns(
        rows=frame(ROW_COLUMNS, file.rows),
        device_events=frame(DEVICE_COLUMNS, file.device_events),
        memory=frame(MEMORY_COLUMNS, file.memory),
        inputs=frame(INPUT_COLUMNS, file.inputs),
        extra=file.extra,
        facts=file.facts,
    )


class _PaddleMessages:
    """Collects the content of a file, message by message."""

    def __init__(self, data: bytes, report: ImportReport) -> None:
        self.data = data
        self.report = report
        self.rows: list[list[Any]] = []
        self.device_events: list[tuple[Any, ...]] = []
        self.memory: list[tuple[Any, ...]] = []
        self.inputs: list[tuple[str, str, str]] = []
        self.extra: dict[str, str] = {}
        self.facts: dict[str, Any] = {}

    def root(self, number: int, value: int | Span) -> None:
        """Add a field of the outermost message."""
        if isinstance(value, int):
            if number == 2:
                self.facts["span"] = value
        elif number == 1:
            self.facts["schema_version"] = text(self.data, value)
        elif number == 3:
            self._thread(value)
        elif number == 4:
            pair = mapping(self.data, value)
            self.extra[text(self.data, pair.get(1))] = text(self.data, pair.get(2))
        elif number == 5:
            self.facts.setdefault("device_properties", []).append(
                {
                    _DEVICE_FACTS[key]: entry if isinstance(entry, int) else text(self.data, entry)
                    for key, entry in fields(self.data, value)
                    if 0 < key < len(_DEVICE_FACTS)
                }
            )

    def _thread(self, span: Span) -> None:
        parents: dict[int, tuple[int, int, int]] = {}
        supplements: list[tuple[int, _Supplement]] = []
        try:
            for number, value in fields(self.data, span):
                if number == 2 and isinstance(value, tuple):
                    self._try(lambda value=value: self._node(value, parents, supplements))  # type: ignore[misc]
        except WireError as error:
            self.report.broken_rows(1, str(error), "the rest of a thread is missing")
        for node, supplement in supplements:
            self._roll_up(node, supplement, parents)

    def _try(self, take: Callable[[], None]) -> None:
        try:
            take()
        except (WireError, ValueError, TypeError, KeyError) as error:
            self.report.broken_rows(1, str(error), "these events are left out")

    def _node(
        self, span: Span, parents: dict[int, tuple[int, int, int]], supplements: list[tuple[int, _Supplement]]
    ) -> None:
        data = self.data
        key = parent = -1
        for number, value in fields(data, span):
            if isinstance(value, int):
                if number == 1:
                    key = signed(value)
                elif number == 2:
                    parent = signed(value)
            elif number == 3:
                kind, row = self._host(mapping(data, value))
                parents[key] = (parent, kind, row)
            elif number == 4:
                self._try(lambda value=value: self._runtime(value))  # type: ignore[misc]
            elif number == 5:
                self._try(lambda value=value: self._memory(value))  # type: ignore[misc]
            elif number == 6:
                supplements += [(key, self._supplement(v)) for n, v in fields(data, value) if n == 1]

    def _host(self, event: dict[int, int | Span]) -> tuple[int, int]:
        kind = _int(event, 2)
        if _int(event, 3) == 0 and not 0 <= _int(event, 4) < _LIMIT:  # the root that stands for the thread
            return kind, -1
        start, end, name = _time(event, 3), _time(event, 4), text(self.data, event.get(1))
        word = event_type(kind, name)
        self.rows.append(
            [start, end - start, name, word, _int(event, 5), _int(event, 6), -1, -1, -1, None, None]
        )
        return kind, len(self.rows) - 1

    def _runtime(self, span: Span) -> None:
        for number, value in fields(self.data, span):
            if not isinstance(value, tuple):
                continue
            if number == 1:
                call = mapping(self.data, value)
                start, end = _time(call, 2), _time(call, 3)
                name, thread = text(self.data, call.get(1)), (_int(call, 4), _int(call, 5))
                self.rows.append(
                    [start, end - start, name, "CudaRuntime", *thread, -1, -1, _int(call, 6), None, None]
                )
            elif number == 2:
                for inner, event in fields(self.data, value):
                    if inner == 1 and isinstance(event, tuple):
                        self._device(mapping(self.data, event))

    def _device(self, event: dict[int, int | Span]) -> None:
        start, end, name = _time(event, 3), _time(event, 4), text(self.data, event.get(1))
        word = event_type(_int(event, 2), name)
        if word not in DEVICE_TYPES:
            word = "Kernel"
        device, stream, correlation = _int(event, 5), _int(event, 7), _int(event, 8)
        self.rows.append([start, end - start, name, word, -1, -1, device, stream, correlation, None, None])
        detail = next((event[key] for key in (9, 10, 11) if key in event), None)
        facts = numbers(self.data, detail) if isinstance(detail, tuple) else {}
        launch: tuple[Any, ...] = (None,) * 4 + (float("nan"),) * 3
        if 9 in event:
            of = [facts.get(key, 0) for key in range(18)]
            launch = (str(of[4:7]), str(of[1:4]), of[9], of[7] + of[8], *map(float32, of[15:18]))
        moved = facts.get(1) if 9 not in event else None
        filled = facts.get(3) if 11 in event else None
        self.device_events.append(
            (correlation, device, stream, start, name, word, _int(event, 6), *launch, moved, filled)
        )

    def _memory(self, span: Span) -> None:
        for number, value in fields(self.data, span):
            if number == 1 and isinstance(value, tuple):
                event = mapping(self.data, value)
                kind = _int(event, 2)
                if not 0 <= kind < len(MEMORY_TYPES):
                    raise ValueError(f"no type {kind} of memory events")
                numbers = (_int(event, key) for key in (6, 8, 9, 10, 11, 4, 5))
                place, addr = text(self.data, event.get(7)), int(event.get(3, 0))  # type: ignore[arg-type]
                self.memory.append((_time(event, 1), MEMORY_TYPES[kind], place, addr, *numbers))

    def _supplement(self, value: int | Span) -> _Supplement:
        event = mapping(self.data, value) if isinstance(value, tuple) else {}
        shapes = self._by_key(event.get(5), lambda part: self._shape(part))
        dtypes = self._by_key(event.get(6), lambda part: text(self.data, part))
        return shapes, dtypes, text(self.data, event.get(7))

    def _by_key(self, value: int | Span | None, decode: Callable[[Span], Any]) -> dict[str, Any]:
        keys: list[str] = []
        lists: list[list[Any]] = []
        for number, part in fields(self.data, value) if isinstance(value, tuple) else ():
            if number == 1:
                keys.append(text(self.data, part))
            elif isinstance(part, tuple):
                inner = (entry for _, entry in fields(self.data, part))
                lists.append([decode(entry) for entry in inner if isinstance(entry, tuple)])
        return dict(zip(keys, lists, strict=False))

    def _shape(self, span: Span) -> list[int]:
        return [signed(size) for _, size in fields(self.data, span) if isinstance(size, int)]

    def _roll_up(self, node: int, supplement: _Supplement, parents: dict[int, tuple[int, int, int]]) -> None:
        """Give a record to the nearest operator around the event to which it belongs."""
        home = own = parents.get(node, (-1, -1, -1))
        for _ in range(len(parents)):
            if home[1] == _OPERATOR or home[0] not in parents:
                break
            home = parents[home[0]]
        row = home[2] if home[1] == _OPERATOR else own[2]
        if row < 0:
            self.report.add("record-without-operator", "info", effect="the shapes of an event are left out")
            return
        shapes, dtypes, callstack = supplement
        if shapes:
            self.rows[row][9] = shapes_text(shapes)
            words = (msgspec.json.encode(part).decode() for part in (shapes, dtypes))
            self.inputs.append((self.rows[row][2], *words))
        self.rows[row][10] = callstack or None


def _int(event: dict[int, int | Span], key: int) -> int:
    value = event.get(key, 0)
    if not isinstance(value, int):
        raise WireError(f"field {key} is not a number")
    return signed(value)


def _time(event: dict[int, int | Span], key: int) -> int:
    value = _int(event, key)
    if not 0 <= value < _LIMIT:
        raise ValueError(f"no time: {value}")
    return value
