"""The claim of a rule, and the findings that are reported of it."""
