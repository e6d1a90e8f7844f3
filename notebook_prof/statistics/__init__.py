"""Statistics of step times: counted steps, intervals, and the difference of two series."""
