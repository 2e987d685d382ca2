"""One run of a program, and the mistakes that it has shown.

`verify` compares two runs; this watches one, and says what it saw in the words and by the codes of
the rules. Nothing in here is imported by `amplint check` or `amplint fix`.

The program runs in a copy of its project (`project`), or it is the one that this process runs: a
block (`block`), or tests (`plugin`).
"""
