"""What formats share: compression, streams, JSON that is damaged, numbers in text, protocol buffers."""
