"""Facts about functions and nodes that rest on inference: hotness, provenance, reach."""
