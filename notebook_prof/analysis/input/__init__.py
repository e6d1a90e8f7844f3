"""Input: how long steps wait for data, and why."""
