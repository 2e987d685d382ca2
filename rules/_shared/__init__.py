"""Predicates, evidence and edits that several rules share."""
