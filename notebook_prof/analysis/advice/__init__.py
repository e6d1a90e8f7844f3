"""Advice: rules that look at the measured run, ranked by what they could gain."""
