"""What a file says about itself, around the events."""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec

from ...trace.report import ImportReport
from ..codec import json_repair

_TEXT_LIMIT: Final = 1000
_RANK_IN_NAME: Final = re.compile(r"(?:rank|worker)[-_]?(\d{1,6})(?!\d)", re.IGNORECASE)
_UNDECODABLE: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


def envelope(head: bytes, tail: bytes, report: ImportReport) -> dict[str, Any]:
    """The object around the events.

    Parameters
    ----------
    head : bytes
        From the start of the file up to and with the bracket that opens the list of events.
    tail : bytes
        What follows the list's closing bracket.
    report : ImportReport
        Counts repairs (``invalid-json``).

    Returns
    -------
    dict
        Without the events; empty for the array form, and for what cannot be repaired.
    """
    if head.lstrip().startswith(b"["):
        return {}
    tail = tail.strip(b"\x00 \t\r\n") or b"}"
    for text in (head + b"]" + tail, head + b"]}"):
        try:
            return _object(text)
        except _UNDECODABLE as error:
            trial = ImportReport()
            fixed = json_repair.mend(text, str(error), trial)
        try:
            found = _object(fixed)
        except _UNDECODABLE:
            continue
        report.extend(trial)
        return found
    return {}


def _object(text: bytes) -> dict[str, Any]:
    found = msgspec.json.decode(text, type=dict[str, Any])
    found.pop("traceEvents", None)
    return found


def facts(found: dict[str, Any], file_name: str) -> dict[str, Any]:
    """Metadata of a trace, from the object around the events.

    Parameters
    ----------
    found : dict
        From `envelope`.
    file_name : str
        Tells the rank (``rank-3``, ``worker3``) of a job whose ``distributedInfo`` does not.

    Returns
    -------
    dict
        Those of these that the file tells: ``devices`` (names), ``device_properties`` (list of dict),
        ``rank``, ``world_size``, ``backend``, ``distributed`` (the whole ``distributedInfo``), ``host``,
        and ``kineto`` with every other entry of the file that is a number or a short text.

    Examples
    --------
    >>> facts({"distributedInfo": {"rank": 3, "backend": "nccl"}, "schemaVersion": 1}, "")["rank"]
    3
    """
    result: dict[str, Any] = {}
    devices = found.get("deviceProperties") or found.get("computeProperties")
    if isinstance(devices, list):
        devices = [device for device in devices if isinstance(device, dict)]
        result["devices"] = [str(device.get("name", "")) for device in devices]
        result["device_properties"] = devices
    distributed = found.get("distributedInfo")
    if isinstance(distributed, dict):
        result["distributed"] = distributed
        for key, kind in (("rank", int), ("world_size", int), ("backend", str)):
            if isinstance(distributed.get(key), kind):
                result[key] = distributed[key]
        if "rank" not in result and (match := _RANK_IN_NAME.search(file_name)):
            result["rank"] = int(match[1])
    if not 0 <= result.get("rank", 0) < 1 << 31:
        del result["rank"]
    if isinstance(found.get("host_name"), str):
        result["host"] = found["host_name"]
    others = {key: value for key, value in found.items() if _is_short(value)}
    if others:
        result["kineto"] = others
    return result


def base_ns(found: dict[str, Any]) -> int:
    """``baseTimeNanoseconds``; 0 in files from before 2024, whose times are absolute."""
    value = found.get("baseTimeNanoseconds", 0)
    return value if isinstance(value, int) and abs(value) < 1 << 62 else 0


def _is_short(value: Any) -> bool:
    return isinstance(value, bool | int | float) or (isinstance(value, str) and len(value) <= _TEXT_LIMIT)
