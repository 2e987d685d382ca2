"""One function as it is evaluated: a `Frame`, and a part for each kind of operation."""
