"""The light watch of a whole notebook: every cell, its statements, memory and CPU time, as one Trace."""
