"""The tables of ``paddle.profiler.Profiler.summary()``, as DataFrames and as text, of any recording."""
