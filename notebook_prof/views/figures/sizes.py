"""Sizes of the dashboard's figures that the page shares, in pixels."""

from __future__ import annotations

from typing import Final

GUTTER_PX: Final = 184
MARGIN_PX: Final = 14
LANE_PX: Final = 18
AXIS_PX: Final = 26
