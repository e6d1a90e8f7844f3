"""What machines can do at most, as far as it was measured in this process."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import pandas as pd

from ...trace import Trace

HOST: Final = "host"


@dataclass(frozen=True, slots=True)
class Ceilings:
    """The two ceilings of a roofline.

    Attributes
    ----------
    name : str
        Of the device, as recordings name it; ``host`` for the processors of this machine.
    flops_per_s, bytes_per_s : float
        The fastest matrix product, and the fastest copy (bytes read and bytes written).
    dtype : str
        Element type of the product.
    how : str
        With what it was measured.

    Examples
    --------
    >>> Ceilings("host", 5e10, 1e10, "float32", "numpy, 1024 × 1024").limits
    {'flops_per_s': 50000000000.0, 'bytes_per_s': 10000000000.0}
    """

    name: str
    flops_per_s: float
    bytes_per_s: float
    dtype: str
    how: str

    @property
    def limits(self) -> dict[str, float]:
        """Arguments of `roofline`: ``p.roofline(**nbp.measure_device().limits)``."""
        return {"flops_per_s": self.flops_per_s, "bytes_per_s": self.bytes_per_s}

    @property
    def frame(self) -> pd.DataFrame:
        """A row ``name dtype flops_per_s bytes_per_s how``."""
        names = ("name", "dtype", "flops_per_s", "bytes_per_s", "how")
        return pd.DataFrame([[getattr(self, name) for name in names]], columns=list(names))


_MEASURED: dict[str, Ceilings] = {}


def remember(ceilings: Ceilings) -> None:
    """Keep a measurement for `ceilings_of`; a later one of the same device replaces it."""
    _MEASURED[ceilings.name] = ceilings


def forget() -> None:
    """Drop all measurements."""
    _MEASURED.clear()


def ceilings_of(trace: Trace) -> Ceilings | None:
    """The ceilings of the device that a trace is of, or of the host where no device worked, if measured here.

    A recording that was read from a file may be of another machine: its device must have the same name, and
    a recording of the host alone the host's name of this one's, if it tells one.
    """
    devices = trace.metadata.get("devices")
    if (trace.tracks["kind"] == "stream").any():
        names = devices if isinstance(devices, list | tuple) else ()
        return next((_MEASURED[name] for name in map(str, names) if name in _MEASURED), None)
    if "file" in trace.metadata:
        return None
    return _MEASURED.get(HOST)
