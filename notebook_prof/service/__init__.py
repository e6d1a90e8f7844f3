"""Answers to a page's questions about a recording. Imports neither Jupyter nor Bokeh."""
