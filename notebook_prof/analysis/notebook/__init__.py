"""Analyses of a whole notebook: its cells, what they took, and which depend on which."""
