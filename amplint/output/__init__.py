"""Findings as text and in formats for machines."""

# Here, because `--help` names them and waits for no format.
FORMATS = (
    "text", "concise", "json", "json-lines", "sarif", "github", "gitlab", "junit", "html",
)  # fmt: skip
HTML = "html"
# Those that are printed file by file, as the findings of each are known.
STREAMED = ("concise", "json-lines")
# Those that cannot say of themselves that findings are missing, nor be seen to be cut off.
ALL_OR_NOTHING = ("json", "gitlab", "statistics", "statistics-json")
# What `--statistics` makes of a format: counts instead of findings.
STATISTICS = {"text": "statistics", "json": "statistics-json"}
