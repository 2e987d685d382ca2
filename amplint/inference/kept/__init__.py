"""What is kept of a fixpoint, on disk and in memory, and taken up again after an edit."""
