"""Lightweight recording of a whole notebook: cells, statements, memory and CPU time in one Trace."""
