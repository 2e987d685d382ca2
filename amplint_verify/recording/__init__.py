"""Records of one run of a program: operations, results, waits."""
