"""The engine in the process: a thread samples the others."""
