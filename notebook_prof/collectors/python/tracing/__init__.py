"""Traces every call, with VizTracer or `sys.monitoring`."""
