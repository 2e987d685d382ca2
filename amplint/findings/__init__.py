"""The claim of a rule, the findings that it reports, and the comments that suppress them."""
