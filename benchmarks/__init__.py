"""Benchmarks: ratios, measured side by side in one run."""

import os
import sys

if sys.argv[0] == "-m":  # run, not imported: Python says so while it looks for the module to run
    # before NumPy or torch is loaded: more compute threads than free cores make ratios noise
    for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(_name, "1")
    os.environ.setdefault("KINETO_LOG_LEVEL", "6")
    os.environ.setdefault("NOTEBOOK_PROF_HISTORY", "off")  # what it costs is measured by itself
