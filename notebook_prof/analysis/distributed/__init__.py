"""Communication between ranks, and what a MindSpore cluster tells of all of them."""
