"""A fixpoint that is kept, on disk and in memory, and taken up again after an edit."""
