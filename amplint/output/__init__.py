"""Findings as text and in formats for machines."""

# Here, because `--help` names them and waits for no format.
FORMATS = (
    "text", "concise", "json", "json-lines", "sarif", "github", "gitlab", "junit", "html",
)  # fmt: skip
# What `--statistics` makes of a format: counts instead of findings.
STATISTICS = {"text": "statistics", "json": "statistics-json"}
