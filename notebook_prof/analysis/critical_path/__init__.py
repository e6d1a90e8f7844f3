"""Which chain of work and waits decided how long a step took: dependences, the walk, and its tables."""
