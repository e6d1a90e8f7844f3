"""What is shown while a cell is recorded."""
