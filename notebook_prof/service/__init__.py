"""Questions about a recording and their answers: level of detail, tables, search.

Nothing here knows Jupyter or Bokeh.
"""
