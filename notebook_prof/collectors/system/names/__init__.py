"""Names of memory: which variable holds which buffer, by a bounded walk that runs no code of the user's."""
