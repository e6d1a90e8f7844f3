"""The linked page of many ranks: figures that filter one another, and the timelines of chosen ranks."""

from .frames import PageFrames, PageSums
from .queries import RankProtocol, RankSource
from .selected_tables import frames_under

__all__ = ["PageFrames", "PageSums", "RankProtocol", "RankSource", "frames_under"]
