"""Many ranks: one recording each, read, reduced and dropped, here or on a Dask cluster."""
