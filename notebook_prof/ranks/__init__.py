"""Many ranks: one recording each, read, reduced and dropped, here or on a Dask cluster."""

from .analysis.answers import RankAnswers
from .files import RankFile
from .rankset import RankSet

__all__ = ["RankAnswers", "RankFile", "RankSet"]
