"""A simulated CUPTI on this machine's clock."""

import sys
import time

from tests.pretend_cupti import Cupti

played = Cupti("13.0.1")
played.now = time.time_ns
sys.modules[__name__] = played  # type: ignore[assignment]
