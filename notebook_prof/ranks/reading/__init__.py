"""Find the files of a run's ranks, and reduce each: on this machine or on a cluster."""
