"""The text of a file: its LibCST trees, paired with its `ast`, and the edits that it allows."""
