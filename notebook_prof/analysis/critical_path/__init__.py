"""The chain of work and waits that determined how long a step took."""
