"""The tables of ``paddle.profiler.Profiler.summary()`` for any recording, as DataFrames and as text."""
