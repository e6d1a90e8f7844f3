"""Pictures of many ranks: messages, pipeline bubbles, groups of equal ranks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
import pandas as pd
from bokeh.models import (
    BasicTicker,
    ColorBar,
    ColumnDataSource,
    CustomJSTickFormatter,
    HoverTool,
    LinearColorMapper,
)
from bokeh.palettes import Cividis256
from bokeh.plotting import figure

from ..service.palette import MARK, NAMES
from ..units import format_bytes, format_count, format_ns
from ..views.time_axis import TIME_CODE
from .page.figures import BUBBLES
from .pictures import picture

_HALF: Final = 0.5
_POINTS: Final = {
    "representative": ("dash", 16, 2, "#333333"),
    "outlier": ("circle", 6, 0, MARK),
}
"""Marker, size, line width and colour."""


def rank_matrix(links: pd.DataFrame) -> figure:
    """Draw bytes (or else messages) from senders (rows) to receivers (columns) as colours."""
    size = links["bytes"].astype("Float64").to_numpy(np.float64, na_value=np.nan)
    sized = bool(np.isfinite(size).all())
    value = size if sized else links["count"].to_numpy(np.float64)
    texts = [format_bytes(int(b)) if np.isfinite(b) else "–" for b in size.tolist()]
    source = ColumnDataSource(
        {
            "src": links["src"].to_numpy(),
            "dst": links["dst"].to_numpy(),
            "value": value,
            "size": texts,
            "count": [format_count(int(n)) for n in links["count"].tolist()],
            "time": [format_ns(ns) for ns in links["transfer_ns"].tolist()],
        }
    )
    low, high = (float(value.min()), float(value.max())) if len(value) else (0.0, 1.0)
    colours = LinearColorMapper(palette=Cividis256, low=low, high=max(high, low + 1))
    what = "bytes" if sized else "messages"
    plot = picture(
        f"{what} from rank to rank" if len(links) else "no messages are told", "to rank", "from rank"
    )
    plot.rect(
        x="dst", y="src", width=1, height=1, source=source, line_color=None,
        fill_color={"field": "value", "transform": colours}, name="links",
    )  # fmt: skip
    plot.xaxis.ticker = plot.yaxis.ticker = BasicTicker(min_interval=1)
    plot.add_layout(ColorBar(color_mapper=colours, width=8), "right")
    tips = [("from", "@src"), ("to", "@dst"), ("messages", "@count"), ("", "@size"), ("transfer", "@time")]
    plot.add_tools(HoverTool(tooltips=tips))
    return plot


def rank_bubbles(pipeline: pd.DataFrame) -> figure:
    """Draw a bar per rank: the mean window of a step, divided into computation and parts of the bubble."""
    parts = list(BUBBLES)
    means = pipeline.groupby("rank")[["stage", *parts, "bubble_share", "ideal_share"]].mean()
    plot = picture("pipeline bubbles" if len(means) else "no rank sends to another", "rank", "")
    plot.yaxis.formatter = CustomJSTickFormatter(code=TIME_CODE)
    plot.xaxis.ticker = BasicTicker(min_interval=1)
    data = {"rank": means.index.to_numpy(), "stage": means["stage"].astype("int64").to_numpy()}
    bottom = np.zeros(len(means))
    for name in parts:
        value = means[name].to_numpy(np.float64)
        data |= {f"{name}_bottom": bottom, f"{name}_top": bottom + value}
        data[f"{name}_time"] = [format_ns(ns) for ns in value.tolist()]
        bottom = bottom + value
    for name in ("bubble", "ideal"):
        data[name] = [f"{100 * share:.1f} %" for share in means[f"{name}_share"].tolist()]
    source = ColumnDataSource(data)
    for name, (label, colour) in BUBBLES.items():
        plot.vbar(
            x="rank", bottom=f"{name}_bottom", top=f"{name}_top", width=0.8, source=source,
            fill_color=colour, line_color=None, legend_label=label, name=name,
        )  # fmt: skip
    tips = [("rank", "@rank"), ("stage", "@stage"), ("bubble", "@bubble"), ("ideal", "@ideal")]
    tips += [(label, f"@{name}_time") for name, (label, _) in BUBBLES.items()]
    plot.add_tools(HoverTool(tooltips=tips))
    plot.legend.orientation = "horizontal"
    plot.add_layout(plot.legend[0], "above")
    return plot


def rank_spread(ranks: pd.DataFrame, bands: pd.DataFrame, figures: pd.DataFrame) -> figure:
    """Draw each group and metric: the 5th to 95th percentile, the representative and the outliers."""
    # `figures` has ``rank metric value``: each rank's median over its steps, in ns
    metrics = list(dict.fromkeys(bands["metric"]))
    names = [metric.removesuffix("_ns").replace("_", " ") for metric in metrics]
    plot = picture("spread of the ranks by group", "", "")
    plot.xaxis.ticker = list(range(len(metrics)))
    plot.xaxis.major_label_overrides = dict(enumerate(names))
    plot.yaxis.formatter = CustomJSTickFormatter(code=TIME_CODE)
    groups = sorted(bands["group"].unique())
    width = 0.8 / max(len(groups), 1)
    joined = figures.merge(ranks[["rank", "group", "representative", "outlier", "why"]], on="rank")
    for i, group in enumerate(groups):
        shift = (i + _HALF) * width - 0.4
        x_of_metric = {metric: number + shift for number, metric in enumerate(metrics)}
        own, some = bands[bands["group"] == group], joined[joined["group"] == group]
        like = f"{int(own['ranks'].iloc[0])} ranks, as rank {int(own['representative'].iloc[0])}"
        plot.vbar(
            x=own["metric"].map(x_of_metric), bottom=own["low"], top=own["high"], width=0.8 * width,
            fill_color=NAMES[i % len(NAMES)], line_color=None, legend_label=f"group {group} · {like}",
            name="bands",
        )  # fmt: skip
        _add_points(plot, some[some["representative"]], x_of_metric, "representative")
        _add_points(plot, some[some["outlier"]], x_of_metric, "outlier")
    if groups:
        plot.add_layout(plot.legend[0], "above")
    return plot


def _add_points(plot: figure, points: pd.DataFrame, x_of_metric: Mapping[str, float], name: str) -> None:
    marker, size, width, colour = _POINTS[name]
    source = ColumnDataSource(
        {
            "x": points["metric"].map(x_of_metric).to_numpy(np.float64),
            "y": points["value"].to_numpy(np.float64),
            "rank": points["rank"].to_numpy(),
            "why": points["why"].tolist(),
            "time": [format_ns(ns) for ns in points["value"].tolist()],
        }
    )
    drawn = plot.scatter(
        "x", "y", source=source, marker=marker, size=size, line_width=width, line_color=colour,
        fill_color=colour, name=name,
    )  # fmt: skip
    tips = [("rank", "@rank"), ("", "@time"), ("", "@why")]
    plot.add_tools(HoverTool(tooltips=tips, renderers=[drawn]))
