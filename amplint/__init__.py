"""amplint: a linter for PyTorch training code that knows mixed precision.

`observe` is for programs (docs/observe.md): `with amplint.observe(): ...` watches what is inside.

Beside it, this module offers all that the author of a rule needs: the names of `amplint.promised`,
which are promised to rules of other packages too (docs/own-rules.md), and of `amplint.unpromised`,
which change with amplint's own rules, without notice. They are imported when one is first used, so
that `amplint --help` pays for none of it.
`libcst` is LibCST, imported when a rule first uses a name of it; `Source` imports it, and so rules
name that one where types are checked alone.

PYTEST_DONT_REWRITE: pytest would warn that it cannot, where this was imported before it started.
"""

# ruff: noqa: E402, F403

from __future__ import annotations

import os
import sys

_HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))  # noqa: PTH100, PTH120
if sys.argv[:1] == ["-m"] and sys.path[:1] == [os.getcwd()] != [_HERE]:  # noqa: PTH109
    # `python -m amplint`: Python searches the current directory first, which may be a stranger's
    # repository, and what is imported from here on would be code of it.
    del sys.path[0]

import importlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from amplint.util.lazy import LazyModule

__version__ = "0.1.0"

_CHECKOUT = Path(__file__).resolve().parent.parent
if (_CHECKOUT / "rules" / "__init__.py").is_file():  # not installed: rules/ lies beside amplint/
    __path__.append(str(_CHECKOUT))

_APART = {  # of which the first imports LibCST, and the second is for programs
    "Source": "amplint.source.source",
    "observe": "amplint_verify.observing.block",
}

if TYPE_CHECKING:
    import libcst as libcst

    from amplint.promised import *
    from amplint.source.source import Source as Source
    from amplint.unpromised import *
    from amplint_verify.observing.block import observe as observe
else:
    libcst = LazyModule("libcst")

    # Of types alone there is no such method: mypy would accept any name.
    def __getattr__(name: str) -> Any:
        promised = "amplint.promised"
        if name == "__all__":
            names = vars(importlib.import_module(promised))
            names = [each for each in names if each.isidentifier() and each[0] != "_"]
            return ["Source", "__version__", "libcst", *names]
        apart = _APART.get(name)
        for home in (apart,) if apart else (promised, "amplint.unpromised"):
            if name[0] != "_" and hasattr(module := importlib.import_module(home), name):
                # All rules ask for the same names: they find them here the next time.
                return globals().setdefault(name, getattr(module, name))
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
