"""Expectations: what a run shall hold, in a line each, and whether it does."""
