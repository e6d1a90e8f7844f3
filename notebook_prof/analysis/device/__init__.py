"""Devices: busy time, kernels, launches, copies, graphs and the roofline."""
