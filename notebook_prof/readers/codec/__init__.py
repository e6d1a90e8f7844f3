"""Decoders shared by the formats: compression, streams, damaged JSON, numbers in text, protocol buffers."""
