"""The recorded dependences run forwards again with changed durations."""
