"""The verdict: what bounds a run, in sentences that public tables prove."""
