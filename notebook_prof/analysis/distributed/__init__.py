"""Communication between ranks."""
