"""Collectors: what watches running code and turns it into a Trace."""
