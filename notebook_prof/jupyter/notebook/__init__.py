"""Watches a whole notebook in IPython, for ``%profile_notebook``."""
