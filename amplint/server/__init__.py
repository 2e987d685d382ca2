"""`amplint server`: a language server over standard input and output.

The process that the editor talks to analyses nothing, so that it always answers. It keeps the open
texts (`documents`), decides when to look at them (`schedule`), and shows what was found
(`presentation`). A second process (`worker`, reached by `analyst`) does what `amplint check` does,
with the open texts in the place of the files (`looking`), and keeps a project in memory from one
look to the next.
"""
