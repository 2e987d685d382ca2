"""Findings as text and machine formats, and fixes as written files."""
