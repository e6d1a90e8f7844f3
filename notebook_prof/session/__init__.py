"""Recording: which steps, which collectors, from the first to the last moment."""
