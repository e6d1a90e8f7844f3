"""Line events of the interpreter (Python 3.12 and later)."""
