"""The sampler in the process: ticks from an alarm or from a polling thread."""
