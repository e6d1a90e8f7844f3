"""The verdict: what bounds a run, in sentences proved by public tables."""
