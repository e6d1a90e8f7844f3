"""Collectors: they watch running code and turn it into a Trace."""
