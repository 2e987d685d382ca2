"""Findings as text and machine formats, and fixes as written files."""

# Here, because `--help` names them and waits for no format.
FORMATS = ("text", "concise", "json", "sarif", "github", "gitlab", "junit", "html")
