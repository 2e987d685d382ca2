"""The engine and the rules know no framework by its name: what they know of one is a model."""

from __future__ import annotations

import re
import tokenize
from pathlib import Path

from amplint.frameworks.models import bundled
from tests.helpers import of_each

ROOT = Path(__file__).resolve().parents[2]
# Of these there are rules: their subject is the migration from one of its releases to another, and
# their messages name it.
SUBJECTS = {"rules/_shared/lightning.py", *(f"rules/parallel/{name}.py" for name in (
    "hard_coded_device_in_lightning_module", "host_read_in_self_log", "legacy_trainer_precision",
    "manual_amp_in_automatic_optimization", "removed_trainer_argument", "_trainer",
))}  # fmt: skip
NAMES = frozenset(package for model in bundled() for package in model.packages)
NAMED = re.compile(rf"\b({'|'.join(sorted(NAMES))})\b")
FILES = sorted(
    path for room in ("amplint", "amplint_verify", "rules") for path in (ROOT / room).rglob("*.py")
)


@of_each(FILES)
def test_no_string_of_the_code_names_a_framework(path: Path) -> None:
    """Docstrings and comments may: where a fact was measured, and by which example."""
    place = path.relative_to(ROOT).as_posix()
    if place in SUBJECTS:
        return
    with path.open("rb") as stream:
        tokens = [*tokenize.tokenize(stream.readline)]
    named = [
        token.start[0]
        for token in tokens
        if token.type == tokenize.STRING
        and not token.string.lstrip("rbfRBF").startswith('"""')
        and NAMED.search(token.string)
    ]
    assert named == []


def test_the_exceptions_are_there() -> None:
    assert all((ROOT / place).exists() for place in SUBJECTS)
