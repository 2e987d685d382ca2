"""The View of one expression, which a rule judges: its node in the value graph, its code."""
