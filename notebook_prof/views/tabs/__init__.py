"""The tabs of the dashboard: each a pure function of a trace and a selection.

`PANELS` is the rail, from top to bottom; ``answers/panel.py`` sends a panel to the page, `models` makes Bokeh
models of one.
"""

from __future__ import annotations

from typing import Final

from .advice import advice
from .analyses import without_collectives, without_device, without_input, without_memory, without_steps
from .base import Absent, Card, Cards, Fact, Facts, Note, Panel, Picture, Tab, Table
from .device import device
from .distributed import distributed
from .flame import flame, without_stacks
from .input import input_data
from .kernels import kernels
from .layers import layers, without_modules
from .lines import lines, without_lines
from .memory import memory
from .overview import overview
from .roofline import roofline, without_shapes
from .steps import steps

PANELS: Final[dict[str, Tab]] = {
    "overview": Tab("Overview", overview),
    "lines": Tab("Lines", lines, without_lines),
    "kernels": Tab("Kernels", kernels, without_device),
    "memory": Tab("Memory", memory, without_memory),
    "steps": Tab("Steps", steps, without_steps),
    "input": Tab("Input", input_data, without_input),
    "distributed": Tab("Distributed", distributed, without_collectives),
    "device": Tab("Device", device, without_device),
    "flame": Tab("Flame", flame, without_stacks),
    "layers": Tab("Layers", layers, without_modules),
    "roofline": Tab("Roofline", roofline, without_shapes),
    "advice": Tab("Advice", advice),
}
"""Tabs by name; the operator table is the page's own and not among them."""

__all__ = [
    "PANELS",
    "Absent",
    "Card",
    "Cards",
    "Fact",
    "Facts",
    "Note",
    "Panel",
    "Picture",
    "Tab",
    "Table",
]
