"""Tracing of every call: by VizTracer or by `sys.monitoring`."""
