"""AMP4xx: the protocol of a GradScaler."""
