"""Make `rules/` importable as `amplint.rules` in a checkout that is not installed.

An installed amplint (also `pip install -e .`) finds the rules by itself, through
`package-dir` in pyproject.toml; a bare checkout on `sys.path` does not.
"""

import importlib.util
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent


def _load_rules_package() -> None:
    if importlib.util.find_spec("amplint") is None:
        sys.path.insert(0, str(ROOT))
    if importlib.util.find_spec("amplint.rules") is not None:
        return
    init = ROOT / "rules" / "__init__.py"
    spec = importlib.util.spec_from_file_location(
        "amplint.rules", init, submodule_search_locations=[str(init.parent)]
    )
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["amplint.rules"] = module
    spec.loader.exec_module(module)


_load_rules_package()
