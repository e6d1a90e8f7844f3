"""What Kineto tells of device work and collectives beyond name and time: how launched, what moved."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pandas as pd

from ...background import checkpoint
from ...readers.kineto.activity_metadata import activity_metadata
from ...readers.kineto.activity_types import DEVICE_TYPES
from ...trace.report import ImportReport
from ...trace.strings import Coded

COMMUNICATION: Final = "record_param_comms"
"""The range in which torch's process groups tell what they exchange."""
_CHUNK: Final = 2048
_KEY: Final = ["device", "resource", "ts"]


@dataclass(frozen=True, slots=True)
class DeviceActivities:
    """Which rows can have details, and what finds theirs.

    Attributes
    ----------
    names : frozenset of str
        Of the rows of threads among them.
    rows : ndarray of int64, shape (k,)
    device : ndarray of int64
        -1 for rows of threads.
    resource : ndarray of int64
        Stream, or native thread.
    ts : ndarray of int64
        Unix ns.
    """

    names: frozenset[str]
    rows: npt.NDArray[Any]
    device: npt.NDArray[Any]
    resource: npt.NDArray[Any]
    ts: npt.NDArray[Any]


def details(
    activities: Sequence[Any], on_devices: DeviceActivities, n: int, report: ImportReport
) -> Coded | None:
    """Read what the activities tell, for the rows that can have it.

    Parameters
    ----------
    activities : sequence of torch._C._autograd._ITraceActivity
        ``trace_activities()`` of the result; their metadata are JSON, in the words of Kineto's files.
    on_devices : DeviceActivities
    n : int
        Number of all rows.
    report : ImportReport
        Told how many could not be read.

    Returns
    -------
    Coded or None
        A JSON text a row, as `KinetoColumns.extra`; None where nothing is told.
    """
    if not len(on_devices.rows):
        return None
    host = on_devices.names
    telling: list[Any] = []
    for start in range(0, len(activities), _CHUNK):
        checkpoint()
        part = activities[start : start + _CHUNK]
        telling += [one for one in part if one.type() in DEVICE_TYPES or (host and one.name() in host)]
    extra, unreadable = activity_metadata([_text(one) for one in telling])
    report.add(
        "details-unreadable",
        "info",
        unreadable,
        effect="for these it is not known how they were launched, or what they moved",
    )
    on_device = np.fromiter((one.type() in DEVICE_TYPES for one in telling), bool, len(telling))
    keys = {
        "device": np.where(on_device, _numbers(telling, "device_id"), -1),
        "resource": _numbers(telling, "resource_id"),
        "ts": _numbers(telling, "timestamp"),
    }
    coded = pd.DataFrame({**keys, "code": extra.codes}).drop_duplicates(_KEY)
    keys_of_rows = pd.DataFrame(
        {"device": on_devices.device, "resource": on_devices.resource, "ts": on_devices.ts}
    )
    codes = np.full(n, -1, np.int64)
    codes[on_devices.rows] = (
        keys_of_rows.merge(coded, on=_KEY, how="left")["code"].fillna(-1).to_numpy(np.int64)
    )
    return Coded(codes, extra.values)


def _numbers(activities: list[Any], name: str) -> npt.NDArray[np.int64]:
    return np.fromiter((getattr(one, name)() for one in activities), np.int64, len(activities))


def _text(activity: Any) -> str:
    """Return the metadata; kernels of a collective get what its range tells too, as in torch's files."""
    text: str = activity.metadata_json()
    if activity.type() == "kernel" and (read := getattr(activity, "linked_activity", None)) is not None:
        linked = read()
        if linked is not None and linked.name() == COMMUNICATION and (more := linked.metadata_json()):
            return f"{text},{more}" if text else str(more)
    return text
