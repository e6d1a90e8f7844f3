"""Two recordings side by side: what changed, where, and whether the change is more than noise."""
