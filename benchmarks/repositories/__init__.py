"""Training repositories with labels: drawn by a seed, read by people who knew no rule."""
