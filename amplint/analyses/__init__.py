"""Facts that several rules ask for: how often code runs, and where values come from and go."""
