"""Cells of notebooks: their code belongs to no file, and `linecache` has its text."""

from __future__ import annotations

import linecache
import re
import sys

# How IPython and Databricks name the code of a cell.
OF_CELL = re.compile(r"ipython-input-(\d+)|ipykernel_\d+[/\\](\d+)\.py$|^<?command-(\d+)")


def text_of(name: str) -> str:
    """The text of a cell; "" of what is none.

    Args:
        name: of its file, as code objects have it.
    """
    return "".join(linecache.getlines(name)) if OF_CELL.search(name) else ""


def label(name: str) -> str:
    """The name that a reader knows a cell by, such as "In[3]"."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    named = getattr(getattr(shell, "compile", None), "format_code_name", lambda _: None)(name)
    if named is not None:  # ("Cell", "In[3]")
        return str(named[1])
    match = OF_CELL.search(name)
    number = next(filter(None, match.groups())) if match else ""
    return f"In[{number}]" if "ipython-input" in name else f"cell {number}"
