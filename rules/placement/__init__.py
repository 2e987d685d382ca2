"""AMP5xx: where tensors are made, and how they are moved."""
