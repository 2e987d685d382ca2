"""The edits that a file allows: of expressions and statements, of imports, of suppressions."""
