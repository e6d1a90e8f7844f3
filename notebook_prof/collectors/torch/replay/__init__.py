"""Runs recorded operators alone: with other layouts, types or numbers of threads, or compiled."""
