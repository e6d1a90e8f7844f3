"""Many ranks: one recording each, read, reduced and dropped, here or on a Dask cluster."""

from .analysis.answers import RankAnswers
from .rankset import RankSet
from .reading.files import RankFile

__all__ = ["RankAnswers", "RankFile", "RankSet"]
