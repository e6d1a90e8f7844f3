"""DataLoaders: how they were made, and what their workers and the main process did with each batch.

`ring`, `fetching`, `transforms` and `worker` run inside of workers too: they import nothing but the standard
library.
"""
