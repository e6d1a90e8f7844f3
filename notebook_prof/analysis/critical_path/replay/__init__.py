"""The recorded dependences run forwards with changed durations."""
