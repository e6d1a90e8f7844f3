"""The history of runs: its file, its rows, and what is said of them."""
