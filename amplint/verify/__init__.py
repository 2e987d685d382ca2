"""The runtime harness: run a program before and after its fixes, and compare what both did.

Nothing in here is imported by `amplint check` or `amplint fix`; what needs torch imports it late.
"""
