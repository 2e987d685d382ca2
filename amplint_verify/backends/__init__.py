"""Places to run a program on: a GPU, and stand-ins for one."""
