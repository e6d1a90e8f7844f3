"""What the page of the ranks draws, as tables under the selection of the moment."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd


@dataclass(frozen=True, slots=True)
class PageFrames:
    """Tables of the ranks; times in ns, on one clock where they are starts and ends.

    Attributes
    ----------
    steps : DataFrame
        A row a rank and step: the columns of ``analysis.breakdown``, ``start_ns end_ns`` (missing for ranks
        whose clocks cannot be compared) and ``kept`` bool: inside the selected steps and window.
    late : DataFrame
        ``rank mean_late_ns last_share before``, latest first, over what is kept.
    talk : DataFrame
        ``operation group count wait_ns transfer_ns rest_ns members``, of the selected ranks and what is kept;
        `members` is a list of ranks.
    links : DataFrame
        ``src dst count bytes transfer_ns``, over what is kept.
    bubbles : DataFrame
        ``rank stage compute_ns other_ns warmup_ns between_ns drain_ns``, means over what is kept.
    ranks : DataFrame
        A row a rank for the table: ``rank``, and columns that are named by what stands in them, with their
        units as for analyses (``step_ns``, ``peak_bytes``, ``last_share``, ``flops_per_s``).
    """

    steps: pd.DataFrame
    late: pd.DataFrame
    talk: pd.DataFrame
    links: pd.DataFrame
    bubbles: pd.DataFrame
    ranks: pd.DataFrame
