"""Advice: rules over a recorded run, ranked by what they could gain."""
