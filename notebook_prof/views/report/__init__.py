"""The report and the static form: HTML that needs no kernel."""
