"""Models of what frameworks do with the code that they call, as data: one TOML file for each."""
