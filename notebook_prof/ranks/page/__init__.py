"""The linked page of many ranks: figures that filter one another, and the timelines of chosen ranks."""
