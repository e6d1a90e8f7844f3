"""FLOPs and bytes of one operator call, from the recorded shapes, types and arguments."""
