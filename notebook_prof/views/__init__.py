"""Four linked views of a Trace: timeline, operator table, memory curve, step phases.

`protocol` answers a page's questions, `dashboard` makes its figures, `page/` holds its built code;
`document` writes static HTML and the report, `single` makes one view as a Bokeh model.
"""
