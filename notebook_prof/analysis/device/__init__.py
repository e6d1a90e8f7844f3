"""Devices: how busy they are, kernels, launches, copies, graphs and the roofline."""
