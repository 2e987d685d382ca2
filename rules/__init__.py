"""The rules of amplint: one module a rule, named after the pattern that it finds.

There is no list of them to edit; `amplint.rule.registry` imports every module of this package.
"""
