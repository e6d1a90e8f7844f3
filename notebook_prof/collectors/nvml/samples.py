"""Values that the NVIDIA driver keeps in buffers of its own, with their times."""

from __future__ import annotations

from typing import Any, Final

_OF_TYPE: Final = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")
"""Member of NVML's union by type of value. Source: ``nvml.h``."""
NEAR_US: Final = 60_000_000
"""Times further from the recording than this are on another clock than Unix time."""


class NoSamplesError(Exception):
    """This driver keeps no such buffer, or its times cannot be used."""


def samples_since(nvml: Any, handle: Any, buffer: str, since_us: int) -> list[tuple[int, float]]:
    """What the driver has put into a buffer since a time.

    Parameters
    ----------
    nvml, handle
        pynvml, and the GPU.
    buffer : str
        pynvml's name for it, as in ``NVML_GPU_UTILIZATION_SAMPLES``.
    since_us : int
        Unix microseconds.

    Returns
    -------
    list of (int, float)
        Unix microseconds and value, in order of time; empty where there is nothing new.

    Raises
    ------
    NoSamplesError
        In words.
    """
    try:
        number = getattr(nvml, buffer)
        kind, found = nvml.nvmlDeviceGetSamples(handle, number, since_us)
    except AttributeError as error:
        raise NoSamplesError(str(error)) from error
    except nvml.NVMLError as error:
        if getattr(error, "value", None) == getattr(nvml, "NVML_ERROR_NOT_FOUND", 6):
            return []
        raise NoSamplesError(str(error)) from error
    if not 0 <= kind < len(_OF_TYPE):
        raise NoSamplesError(f"values of type {kind}")
    read = [(int(one.timeStamp), float(getattr(one.sampleValue, _OF_TYPE[kind]))) for one in found]
    read = sorted(pair for pair in read if pair[0] > since_us)
    if read and read[-1][0] - since_us > NEAR_US:
        raise NoSamplesError("their times are on another clock")
    return read
