"""What is asked of many ranks: clocks, arrivals, communication, pipelines, imbalance."""
