"""The runtime harness: run a program before and after its fixes, and compare what both did.

Nothing in here is imported by `amplint check` or `amplint fix`; what needs torch imports it late.
"""

# The extra `amplint[verify]` brings the same, once amplint is on a package index.
HOW_TO_GET_TORCH = "pip install torch numpy"
