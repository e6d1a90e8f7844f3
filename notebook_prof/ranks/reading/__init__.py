"""Find the files of a run's ranks, and reduce each of them: on this machine or on a cluster."""
