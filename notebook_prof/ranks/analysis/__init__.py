"""Analyses of many ranks: clocks, arrivals, communication, pipelines, imbalance."""
