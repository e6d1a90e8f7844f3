"""What only a real NVIDIA card can prove."""
