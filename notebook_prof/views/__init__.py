"""Four linked views of a Trace: timeline, operator table, memory curve, step phases.

`page_queries` answers a page's questions, `dashboard` makes its figures, and `page/` is its built code;
`report` writes static HTML and the report; `pictures` draws single views.
"""
