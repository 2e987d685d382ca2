"""Words that messages share."""

from __future__ import annotations


def counted(number: int, noun: str) -> str:
    """Ex) 1 finding; 1,204 findings"""
    return f"{number:,} {noun}{'s' * (number != 1)}"
