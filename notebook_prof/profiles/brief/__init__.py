"""A recording in so many tokens: sentences, and for each number in them the call that gives it again."""

from .brief import MIME, Brief, brief, brief_bundle

__all__ = ["MIME", "Brief", "brief", "brief_bundle"]
