"""Calls, every one of them: by VizTracer or by Python's own monitoring."""
