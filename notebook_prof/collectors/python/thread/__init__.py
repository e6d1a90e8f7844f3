"""The engine inside the process: a thread that samples the others."""
