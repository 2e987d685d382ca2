"""Rules with their checks, and the search for the nodes that each may speak of."""
