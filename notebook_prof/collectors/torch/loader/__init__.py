"""Records DataLoaders: their settings, and the work of their workers and the main process on each batch."""
