"""Operators as they were recorded, run alone: with other layouts, types, threads, or compiled."""
