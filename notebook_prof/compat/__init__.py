"""What other profilers print, to the character: PyTorch's table, Paddle's summary, MegEngine's ranking."""
