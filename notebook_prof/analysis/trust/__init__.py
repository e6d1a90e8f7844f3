"""Trust: what of a recording is not to be believed, and which rows that concerns."""
