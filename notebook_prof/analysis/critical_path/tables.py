"""The columns of the critical path's tables."""

from __future__ import annotations

from typing import Final

from ...trace.schema import Table

PIECES: Final = Table.of(
    "critical_path",
    "step:Int32 start_ns:int64 end_ns:int64 dur_ns:int64 class:category slice:Int64 name:category "
    "category:category track:Int32 resource:category line:category phase:category module:category "
    "margin_ns:Int64",
)
HOP_TABLE: Final = Table.of(
    "critical_path_hops",
    "step:Int32 at_ns:int64 why:category resource:str slice:Int64 name:str cause_resource:str "
    "cause_slice:Int64 cause_name:str margin_ns:Int64 near_tie:bool",
)
SPANS: Final = Table.of(
    "critical_path_spans",
    "step:Int32 start_ns:int64 end_ns:int64 dur_ns:int64 end:str resource:str device_work_ns:int64 "
    "host_ns:int64 hops:int64 decisions:int64 near_ties:int64 noise_ns:int64 behind_ns:int64",
)
DOUBTS: Final = Table.of(
    "critical_path_doubts",
    "code:str count:int64 of:int64 path_ns:int64 share:float64 effect:str",
)
