"""Finds which variable holds which buffer in memory, by a bounded walk that runs no user code."""
