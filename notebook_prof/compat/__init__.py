"""What other profilers print, to the character."""
