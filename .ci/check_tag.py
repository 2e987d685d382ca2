"""Holds a tag against the version: python .ci/check_tag.py v0.1.0

A release is tagged `v` and the version, and its section in CHANGELOG.md has a date.
"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VERSION = re.compile(r'^version = "(.+)"$', re.MULTILINE)
SECTION = re.compile(r"^## (.+) \((.+)\)$", re.MULTILINE)
DATE = re.compile(r"\d{4}-\d\d-\d\d")


def problems(tag: str, pyproject: str, changelog: str) -> list[str]:
    """What keeps this tag from being a release."""
    (version,) = VERSION.findall(pyproject)
    section, date = SECTION.findall(changelog)[0]
    found = []
    if tag != f"v{version}":
        found.append(f"the tag is {tag}, and pyproject.toml has version {version}")
    if section != version:
        found.append(f"CHANGELOG.md begins with {section}, and pyproject.toml has {version}")
    if not DATE.fullmatch(date):
        found.append(f"CHANGELOG.md says {date!r} of {section}, and no date")
    return found


def main(tag: str) -> int:
    texts = [(ROOT / name).read_text("utf-8") for name in ("pyproject.toml", "CHANGELOG.md")]
    found = problems(tag, *texts)
    print(*found, sep="\n", end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
