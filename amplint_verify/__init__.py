"""The runtime harness: run a program before and after its fixes, and compare what both did; or run
it once, and report what that shows (`observing`).

Nothing in here is imported by `amplint check` or `amplint fix`; what needs torch imports it late.

PYTEST_DONT_REWRITE: pytest would warn that it cannot, where this was imported before it started.
"""

# First of all: under `python -m` it takes the current directory, which may be a stranger's
# repository, off the path that modules are looked for on.
import amplint as amplint

# The extra `amplint[verify]` brings the same, once amplint is on a package index.
HOW_TO_GET_TORCH = "pip install torch numpy"
