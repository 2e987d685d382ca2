"""Fixes as written files: chosen, applied, wrapped, and held against what they bring."""
