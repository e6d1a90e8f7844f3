"""Sums for the ranks' page, computed once, and tables under a selection."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd


@dataclass(frozen=True, slots=True)
class PageSums:
    """Sums behind the page's figures: int64, ns; ``step`` -1 outside steps, ``group`` empty if unknown."""

    # One row per rank and step: ``rank step step_ns compute_ns exposed_ns exposed_memory_ns data_ns
    # idle_ns``, and ``start_ns end_ns`` float64 on the common clock (NaN for clocks that cannot be compared).
    steps: pd.DataFrame
    # Collectives: ``rank step operation group count wait_ns transfer_ns rest_ns``.
    talk: pd.DataFrame
    # Arrivals at shared collectives, without sends and receives: ``rank step group collectives late_ns
    # last_count``.
    late: pd.DataFrame
    # What ran before the collectives at which a rank arrived last: ``rank step group before before_ns``.
    before: pd.DataFrame
    # Messages: ``src dst step group count transfer_ns``, and ``bytes`` float64 (NaN if unknown).
    links: pd.DataFrame
    # Pipelines: ``rank stage step compute_ns other_ns warmup_ns between_ns drain_ns``.
    bubbles: pd.DataFrame
    # One row per rank: ``rank``, and further columns of the table of ranks, named as in `PageFrames`.
    ranks: pd.DataFrame


@dataclass(frozen=True, slots=True)
class PageFrames:
    """Tables of the ranks under a selection; times in ns, starts and ends on one clock."""

    # Highlighted ranks: the selected ones, and those of the selected process groups; None for all.
    emphasised: list[int] | None
    # One row per rank and step, as in `PageSums`, and ``kept`` bool: inside the selected steps and window.
    steps: pd.DataFrame
    # ``rank step value kept``: time of each step or, if process groups are selected, of their collectives.
    heat: pd.DataFrame
    # ``rank mean_late_ns last_share before``, latest first, over the kept rows.
    late: pd.DataFrame
    # ``operation group count wait_ns transfer_ns rest_ns members chosen`` for the wanted ranks and kept rows,
    # selected groups first; `members` is a list of ranks.
    talk: pd.DataFrame
    # ``src dst count bytes transfer_ns``, over the kept rows.
    links: pd.DataFrame
    # ``rank stage compute_ns other_ns warmup_ns between_ns drain_ns``, means over the kept rows.
    bubbles: pd.DataFrame
    # One row per rank for the table: ``rank``, and columns with units in their names (``step_ns``,
    # ``peak_bytes``, ``last_share``, ``flops_per_s``).
    ranks: pd.DataFrame
