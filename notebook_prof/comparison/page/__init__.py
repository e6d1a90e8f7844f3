"""How a comparison is shown: as static HTML, and as a page of two linked timelines, live or as one file."""
