"""A simulated NVML with two cards, of which CUDA has the first."""

import sys
from importlib.machinery import ModuleSpec

from tests.pretend_nvml import Driver


class Warm(Driver):
    """A card with a thermometer."""

    NVML_TEMPERATURE_GPU = 0

    def nvmlDeviceGetTemperature(self, gpu: int, sensor: int) -> int:
        return 55


sys.modules[__name__] = Warm(__spec__=ModuleSpec(__name__, None))  # type: ignore[assignment]
