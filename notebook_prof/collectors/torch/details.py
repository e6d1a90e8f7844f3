"""What Kineto reports about device work and collectives beyond name and time: launch settings, bytes
moved."""

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
"""The range with which torch's process groups report what they exchange."""
_CHUNK: Final = 2048
_KEY: Final = ["device", "resource", "ts"]


@dataclass(frozen=True, slots=True)
class DeviceActivities:
    """The rows that can have details, with the keys that find them."""

    names: frozenset[str]  # names of the host rows among `rows`
    rows: npt.NDArray[Any]  # int64, shape (k,)
    device: npt.NDArray[Any]  # -1 for host rows
    resource: npt.NDArray[Any]  # stream, or native thread
    ts: npt.NDArray[Any]  # Unix ns


def details(
    activities: Sequence[Any], on_devices: DeviceActivities, n: int, report: ImportReport
) -> Coded | None:
    """Read the JSON metadata of the activities, one text per row as in `KinetoColumns.extra`; None if there
    is none."""
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
        effect="their launch settings and bytes moved are not known",
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
    """Return the metadata. Kernels of a collective also get the metadata of its range, as in torch's
    files."""
    text: str = activity.metadata_json()
    if activity.type() == "kernel" and (read := getattr(activity, "linked_activity", None)) is not None:
        linked = read()
        if linked is not None and linked.name() == COMMUNICATION and (more := linked.metadata_json()):
            return f"{text},{more}" if text else str(more)
    return text
