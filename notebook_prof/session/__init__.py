"""What the user holds: a Profile (trace, selection, analyses, views), and recording one."""
