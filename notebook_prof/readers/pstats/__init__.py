"""cProfile's statistics, as ``python -m cProfile -o FILE`` and ``pstats`` write them."""

from .reader import PstatsReader

__all__ = ["PstatsReader"]
