"""The steps of a MindSpore cluster: what of each rank's step is computation and what communication alone."""

from __future__ import annotations

from typing import Final

import pandas as pd

from ...trace import Trace
from ..time.recorded_steps import recorded_table

AVERAGE: Final = -1
_PARTS: Final = (
    "computation_ns",
    "communication_alone_ns",
    "stage_ns",
    "receive_alone_ns",
    "collective_communication_alone_ns",
)


def cluster_steps(trace: Trace, *, step: int | None = None) -> pd.DataFrame:
    """Compare the ranks of a MindSpore folder, as MindInsight's cluster page does.

    Parameters
    ----------
    trace : Trace
        Of a folder with the files of several ranks.
    step : int, optional
        One step, from 1; default the average that the files bring.

    Returns
    -------
    DataFrame
        By rank; no rows without cluster files. All times float64 ns, missing where the files do not tell.

        - ``rank`` int32; ``interval_ns``: from the end of a step to the next one's FP point;
        - ``computation_ns``; ``communication_alone_ns``: without computation beside it;
        - ``stage_ns``: of the pipeline's stage, without waiting for other stages; ``receive_alone_ns``: of
          the communication, waiting for other stages; ``collective_communication_alone_ns``: its rest.

    Examples
    --------
    >>> from notebook_prof import TraceBuilder
    >>> row = {"rank": [0], "step": [-1], "interval_ns": [3.0], "computation_ns": [5.0]}
    >>> tables = {"cluster_steps": pd.DataFrame(row), "step_trace_average": pd.DataFrame(row)}
    >>> cluster_steps(TraceBuilder(metadata={"tables": tables}).seal())["interval_ns"].tolist()
    [3.0]
    """
    wanted = AVERAGE if step is None else step
    parts = recorded_table(trace, "cluster_steps")
    gaps = recorded_table(trace, "step_trace_average" if step is None else "step_trace")
    columns = ["rank", "interval_ns", *_PARTS]
    if parts is None:
        return pd.DataFrame({name: pd.Series(dtype="float64") for name in columns}).astype({"rank": "int32"})
    table = parts[parts["step"] == wanted]
    if gaps is not None:
        table = table.merge(
            gaps.loc[gaps["step"] == wanted, ["rank", "interval_ns"]],
            on="rank",
            how="left",
            suffixes=("_", ""),
        )
    table = table.reindex(columns=columns).astype(dict.fromkeys(columns[1:], "float64"))
    return table.astype({"rank": "int32"}).sort_values("rank", kind="stable").reset_index(drop=True)
