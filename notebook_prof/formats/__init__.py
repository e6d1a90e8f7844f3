"""One package per foreign system: its readers, and the analyses and printers that only it needs.

A format's ``__init__`` contains its readers, which import the parsing code only when they meet a file of
theirs. `notebook_prof.extensions` lists what each format adds to notebook_prof.
"""
