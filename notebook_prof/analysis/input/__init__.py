"""Input: how long steps wait for data, and what holds the pipeline up."""
