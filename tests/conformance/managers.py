"""What docs/ci.md says to those whose project is managed by uv, pdm, hatch, poetry or pixi."""

from __future__ import annotations

import re
from dataclasses import dataclass

from tests.helpers import ROOT

PAGE = (ROOT / "docs" / "ci.md").read_text(encoding="utf-8")
SECTION = PAGE.partition("\n## uv, pdm, hatch, poetry, pixi\n")[2].partition("\n## ")[0]
GROUP, TABLES, OF_PIXI = re.findall(r"^```toml\n(.*?)^```$", SECTION, re.M | re.S)
(LOCAL_HOOK,) = re.findall(r"^```yaml\n(.*?)^```$", SECTION, re.M | re.S)
# Each in an environment of its own, without a project.
ALONE = re.findall(r"^    (\S.*)$", re.sub(r"^```.*?^```$", "", SECTION, flags=re.M | re.S), re.M)


@dataclass(frozen=True)
class Row:
    """What the table says of a manager."""

    commands: tuple[tuple[str, ...], ...]
    entry: tuple[str, ...]


ROWS = {
    manager: Row(
        tuple(tuple(command.split()) for command in commands.split(" && ")),
        tuple(entry.split()),
    )
    for manager, commands, entry in re.findall(
        r"^\| (\w+) \| `([^`]+)` \| `([^`]+)` \|$", SECTION, re.M
    )
}


def filled(recipe: str, address: str, commit: str) -> str:
    return recipe.replace("ADDRESS", address).replace("COMMIT", commit)
