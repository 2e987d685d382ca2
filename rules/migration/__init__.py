"""AMP7xx: deprecated names of mixed precision."""
