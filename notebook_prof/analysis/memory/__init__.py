"""Memory: its curve and peak, its blocks, who holds it, and whether it grows."""
