"""The values that an expression may have, and how they are joined."""
