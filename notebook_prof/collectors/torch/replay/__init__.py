"""Recorded operators run alone: with other layouts, types, threads, or compiled."""
