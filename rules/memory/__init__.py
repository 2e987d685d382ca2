"""AMP9xx: memory, loaders and graphs that are kept."""
