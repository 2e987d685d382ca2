"""Which files belong to a run, what they hold, and what the settings say."""
