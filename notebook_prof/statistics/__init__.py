"""Statistics of step times: which steps count, intervals, and by how much two rows of them differ."""
