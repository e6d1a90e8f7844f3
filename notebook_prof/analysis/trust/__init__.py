"""Trust: which parts of a recording are unreliable, and which rows of tables they affect."""
