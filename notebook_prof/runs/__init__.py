"""Earlier runs: what each recording of a cell leaves in the project's folder, and what it is good for."""
