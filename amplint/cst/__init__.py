"""LibCST trees of the segments of a file, paired with its `ast`."""
