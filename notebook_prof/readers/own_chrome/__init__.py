"""Chrome traces that notebook_prof itself has written: they come back as they were."""

from .reader import OwnChromeReader

__all__ = ["OwnChromeReader"]
