"""Keeping to the devices that were asked for, in JAX's planes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ...readers.jax.columns import Line, Space
from ...trace.report import ImportReport
from ...trace.strings import Coded
from ..devices import left_out

_DEVICE: Final = re.compile(r"/device:[A-Za-z_]+:(\d{1,4})")
_ID: Final = "correlation_id"


def of_devices(space: Space, devices: Sequence[int] | None, report: ImportReport) -> Space:
    """Leave out the planes of other devices, and the calls that launched only their work.

    Parameters
    ----------
    space : Space
    devices : sequence of int or None
        Numbers to keep; None keeps all.
    report : ImportReport
        Told how much is left out.
    """
    if devices is None:
        return space
    number = [_DEVICE.match(line.plane) for line in space.lines]
    other = [match is not None and int(match[1]) not in devices for match in number]
    mine = [line for line, out in zip(space.lines, other, strict=True) if not out]
    theirs = [line for line, out in zip(space.lines, other, strict=True) if out]
    kept = _ids(line for line in mine if _DEVICE.match(line.plane))
    launched = _ids(theirs) - kept
    left_out(report, devices, "device work", sum(len(line.ts) for line in theirs))
    return replace(space, lines=[_without(line, launched) for line in mine])


def _ids(lines: Any) -> set[Any]:
    return {value for line in lines for value in line.stats.get(_ID, ()) if value is not None}


def _without(line: Line, ids: set[Any]) -> Line:
    """The line without the events of these launches."""
    values = line.stats.get(_ID)
    if values is None or not ids:
        return line
    keep = np.fromiter((value not in ids for value in values), bool, len(values))
    return line if keep.all() else _where(line, keep)


def _where(line: Line, keep: npt.NDArray[np.bool_]) -> Line:
    args = line.args
    return replace(
        line,
        ts=line.ts[keep],
        dur=line.dur[keep],
        names=Coded(line.names.codes[keep], line.names.values),
        stats={
            name: [values[i] for i in np.flatnonzero(keep).tolist()] for name, values in line.stats.items()
        },
        args=None if args is None else Coded(args.codes[keep], args.values),
    )
