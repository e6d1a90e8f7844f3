"""A collector that records its calls and fails on request."""

from __future__ import annotations

from typing import ClassVar

from notebook_prof.collectors.base import Availability, Collector


class Noting(Collector):
    """Records its calls with a label. Each given error is raised once."""

    name: ClassVar[str] = "noting"

    def __init__(
        self, errors: dict[str, BaseException] | None = None, calls: list[str] | None = None, label: str = ""
    ) -> None:
        self.errors, self.label = errors or {}, label
        self.calls: list[str] = [] if calls is None else calls

    @classmethod
    def availability(cls) -> Availability:
        return Availability(True)

    def _do(self, what: str) -> None:
        self.calls.append(f"{self.label}{what}")
        if (error := self.errors.pop(what, None)) is not None:
            raise error

    def warm(self, clock: object) -> None:
        self._do("warm")

    def start(self, clock: object) -> None:
        self._do("start")

    def stop(self) -> None:
        self._do("stop")

    def result(self, builder: object) -> None:
        self._do("result")

    def abandon(self) -> None:
        self._do("abandon")
