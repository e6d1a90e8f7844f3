"""Displays of a comparison: static HTML, and a page of two linked timelines, live or as one file."""
