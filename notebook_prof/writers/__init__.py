"""Writers: Traces as files that other tools open."""

from .chrome import write_chrome
from .native import write_native
from .perfetto import write_perfetto
from .stacks import export_stacks
from .tables import write_table

__all__ = ["export_stacks", "write_chrome", "write_native", "write_perfetto", "write_table"]
