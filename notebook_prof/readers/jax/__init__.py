"""JAX and XLA: planes of ``.xplane.pb``, or their copy in ``trace.json.gz``."""

from .assemble import assemble
from .decoder import decode
from .reader import JaxReader

__all__ = ["JaxReader", "assemble", "decode"]
