"""Two runs held against each other, and the verdicts that follow."""
