"""What the page of the ranks draws: sums made once, and tables under the selection of the moment."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd


@dataclass(frozen=True, slots=True)
class PageSums:
    """All that the page's figures are added up from; times in ns.

    Numbers are int64 unless told otherwise; ``step`` is -1 outside steps, and ``group`` the name of a process
    group, empty where recordings do not tell it.

    Attributes
    ----------
    steps : DataFrame
        A row a rank and step: ``rank step step_ns compute_ns exposed_ns exposed_memory_ns data_ns idle_ns``,
        and ``start_ns end_ns`` float64 on the common clock (NaN for ranks whose clocks cannot be compared).
    talk : DataFrame
        Collectives: ``rank step operation group count wait_ns transfer_ns rest_ns``.
    late : DataFrame
        Arrivals at shared collectives, without sends and receives: ``rank step group collectives late_ns
        last_count``.
    before : DataFrame
        What ran before the collectives to which a rank came last: ``rank step group before before_ns``.
    links : DataFrame
        Messages: ``src dst step group count transfer_ns``, and ``bytes`` float64 (NaN where not told).
    bubbles : DataFrame
        Of pipelines: ``rank stage step compute_ns other_ns warmup_ns between_ns drain_ns``.
    ranks : DataFrame
        A row a rank: ``rank``, and further columns of the table of ranks, named as in `PageFrames`.
    """

    steps: pd.DataFrame
    talk: pd.DataFrame
    late: pd.DataFrame
    before: pd.DataFrame
    links: pd.DataFrame
    bubbles: pd.DataFrame
    ranks: pd.DataFrame


@dataclass(frozen=True, slots=True)
class PageFrames:
    """Tables of the ranks under a selection; times in ns, on one clock where they are starts and ends.

    Attributes
    ----------
    emphasised : list of int or None
        The ranks that stand out: the selected ones, of the selected process groups; None for all.
    steps : DataFrame
        A row a rank and step, as in `PageSums`, and ``kept`` bool: inside the selected steps and window.
    heat : DataFrame
        ``rank step value kept``: time of each step, or with process groups selected, time in their
        collectives.
    late : DataFrame
        ``rank mean_late_ns last_share before``, latest first, over what is kept.
    talk : DataFrame
        ``operation group count wait_ns transfer_ns rest_ns members chosen``, of the ranks that are wanted and
        what is kept, those of selected groups first; `members` is a list of ranks.
    links : DataFrame
        ``src dst count bytes transfer_ns``, over what is kept.
    bubbles : DataFrame
        ``rank stage compute_ns other_ns warmup_ns between_ns drain_ns``, means over what is kept.
    ranks : DataFrame
        A row a rank for the table: ``rank``, and columns that are named by what stands in them, with their
        units as for analyses (``step_ns``, ``peak_bytes``, ``last_share``, ``flops_per_s``).
    """

    emphasised: list[int] | None
    steps: pd.DataFrame
    heat: pd.DataFrame
    late: pd.DataFrame
    talk: pd.DataFrame
    links: pd.DataFrame
    bubbles: pd.DataFrame
    ranks: pd.DataFrame
