"""DataLoaders: how they were made, and what their workers and the main process did with each batch.

`ring`, `fetching`, `transforms` and `worker` also run inside workers: they import the standard library only.
"""
