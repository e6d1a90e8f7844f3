"""Records DataLoaders: their settings, and the work of their workers and the main process on each batch.

`ring`, `fetching` and `transforms` also run inside workers, so they import only the standard
library.
"""
