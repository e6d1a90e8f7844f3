"""The linked page of many ranks: figures that filter one another, and the timelines of chosen ranks."""

from .frames import PageFrames, PageSums, frames_under
from .queries import RankProtocol, RankSource

__all__ = ["PageFrames", "PageSums", "RankProtocol", "RankSource", "frames_under"]
