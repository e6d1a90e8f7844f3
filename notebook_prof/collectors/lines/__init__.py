"""Lines as they run, told by the interpreter (Python 3.12 and later)."""
