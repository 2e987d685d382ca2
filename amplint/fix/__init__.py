"""Fixes as written files: chosen, applied, and held against what they bring."""
