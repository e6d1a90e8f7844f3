"""Two recordings beside one another: what changed, where, and whether the change is more than noise."""
