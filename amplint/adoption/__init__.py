"""A project that has findings already: which are known, which are new, which are suppressed."""
