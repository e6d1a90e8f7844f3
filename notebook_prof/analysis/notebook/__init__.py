"""Analyses of a whole notebook: its cells, their times and memory, and their dependences."""
