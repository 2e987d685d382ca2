"""The recipes of docs/ci.md, which `amplint init` writes with ADDRESS and COMMIT filled in."""

from __future__ import annotations

import re
from dataclasses import dataclass

ADDRESS, COMMIT = "ADDRESS", "COMMIT"
BLANK = re.compile(r"\b(?:ADDRESS|COMMIT)\b")  # no part of a name, such as $CI_COMMIT_BRANCH

# All keys are comments: a table that is there says where the settings of a project are, and the
# defaults hold.
SETTINGS = """\
# `amplint check --show-settings` prints all settings, and where each comes from.
# target-torch = "2.4"               # the lowest torch that you support
# exclude = ["third_party/"]         # as in .gitignore
# ignore = ["AMP601"]                # rules that are not reported
# preview = true                     # also new rules, which may still report too much
"""

HOOK = """\
repos:
  - repo: ADDRESS
    rev: COMMIT
    hooks:
      - id: amplint
      # - id: amplint-fix   # applies the safe fixes
"""

GITHUB = """\
name: amplint
on:
  push:
    branches: [main]
  pull_request:
permissions:
  contents: read
  security-events: write # for `sarif: true`
jobs:
  amplint:
    runs-on: ubuntu-latest
    steps:
      - uses: actions/checkout@v4
      - uses: actions/setup-python@v5
        with:
          python-version: "3.11"
      - uses: ADDRESS@COMMIT
        with:
          sarif: true
"""

GITLAB = """\
amplint:
  image: python:3.11
  rules:
    - if: $CI_PIPELINE_SOURCE == "merge_request_event"
    - if: $CI_COMMIT_BRANCH == $CI_DEFAULT_BRANCH
  variables:
    GIT_DEPTH: "0" # all commits: the base of the merge request has to be there
  script:
    - python -m pip install "amplint @ git+ADDRESS@COMMIT"
    - amplint check --exit-zero --format gitlab:amplint.json .
    - amplint check --format text --format junit:amplint.xml ${CI_MERGE_REQUEST_DIFF_BASE_SHA:+--new-since "$CI_MERGE_REQUEST_DIFF_BASE_SHA"} .
  artifacts:
    when: always
    reports:
      codequality: amplint.json
      junit: amplint.xml
"""  # noqa: E501  (a line of a script)

OTHER = """\
python -m pip install "amplint @ git+ADDRESS@COMMIT"
amplint check --format text --format junit:amplint.xml .
"""

# What a scheme, a host, a path and a name of a commit may have; nothing of it ends a word of YAML
# or of a shell.
ADDRESS_FORM = re.compile(r"(?:https?|ssh|git)://[\w.@:+~/-]+")
COMMIT_FORM = re.compile(r"[\w][\w./-]*")
NUMBER = re.compile(r"[\d._]+(?:e\d+)?")  # YAML would take it for one
ON_GITHUB = re.compile(r"(?:https|ssh|git)://(?:git@)?github\.com/([\w.-]+/[\w.-]+?)(?:\.git)?/?")


@dataclass(frozen=True)
class CloneSource:
    """Where amplint can be cloned from, and which commit is wanted."""

    address: str
    commit: str

    @property
    def on_github(self) -> str:
        """Its owner and name on GitHub; empty where it is elsewhere."""
        match = ON_GITHUB.fullmatch(self.address)
        return match[1] if match else ""

    @property
    def is_plain(self) -> bool:
        """Whether both can be written into a recipe as they are."""
        return bool(ADDRESS_FORM.fullmatch(self.address) and COMMIT_FORM.fullmatch(self.commit))


UNKNOWN = CloneSource(ADDRESS, COMMIT)


def hook(source: CloneSource) -> str:
    """The configuration of pre-commit."""
    commit = f'"{source.commit}"' if NUMBER.fullmatch(source.commit) else source.commit
    return filled(HOOK, CloneSource(source.address, commit))


def github(source: CloneSource, branch: str) -> str:
    """The workflow, for a project with this branch; of a source on GitHub, or of none."""
    text = GITHUB.replace("[main]", f"[{branch}]")
    return filled(text, CloneSource(source.on_github or ADDRESS, source.commit))


def filled(recipe: str, source: CloneSource) -> str:
    values = {ADDRESS: source.address, COMMIT: source.commit}
    return BLANK.sub(lambda blank: values[blank[0]], recipe)
