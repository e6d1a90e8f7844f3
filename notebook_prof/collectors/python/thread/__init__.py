"""The engine in the process: a thread looks at the others."""
