"""Memory: its curve and peak, its blocks, its owners, and its growth."""
