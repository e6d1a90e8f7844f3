"""Profile: a trace, a selection, the analyses as methods, and views."""
