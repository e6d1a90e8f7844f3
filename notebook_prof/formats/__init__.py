"""A room for each foreign system: its readers, and the analyses and printers that belong to it alone.

A room's ``__init__`` has its readers. It imports what reads when a file of theirs is met.
`notebook_prof.extensions` lists what a room adds to the package.
"""
