"""Types and small tools that every other package of amplint builds on."""
