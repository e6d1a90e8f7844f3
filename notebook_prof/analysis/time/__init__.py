"""Time on the host: operators, phases, steps, waits, and the account of the cell."""
