"""Replay of the recorded dependences with changed durations."""
