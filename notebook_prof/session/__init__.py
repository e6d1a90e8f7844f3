"""Recording: which steps, with which collectors, and when to start and stop."""
