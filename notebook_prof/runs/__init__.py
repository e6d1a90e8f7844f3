"""The history of runs: each recording of a cell adds a row in the project's folder."""
