"""Inside Jupyter: the magics, the display and the widget."""
