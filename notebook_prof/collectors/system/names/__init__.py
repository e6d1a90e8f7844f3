"""Names of memory: which variable holds which buffer, by a bounded walk that runs no user code."""
