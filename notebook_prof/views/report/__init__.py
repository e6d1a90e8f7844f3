"""The report and the static form: HTML without a kernel."""
