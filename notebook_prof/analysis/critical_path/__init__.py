"""The chain of work and waits that decided how long a step took."""
