"""Communication between ranks, and a MindSpore cluster's own tables."""
