"""Collectors, which watch running code and turn what they see into a Trace."""
