"""The linked page of many ranks: figures that filter one another, and the timelines of chosen ranks below."""

from .frames import PageFrames
from .protocol import RankProtocol, RankSource

__all__ = ["PageFrames", "RankProtocol", "RankSource"]
