"""The intermediate representation: definitions and value graphs, and how a file becomes them."""
