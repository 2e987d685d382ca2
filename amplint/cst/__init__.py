"""LibCST trees of the segments of a file, paired with its `ast`, and edits of its text."""
