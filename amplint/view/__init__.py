"""What a rule judges: one node of the value graph, with all that is known of it."""
