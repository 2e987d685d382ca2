"""The syntax of Python 3.10 to 3.15, and what none of them reads.

Which version reads what was asked of `ast` of CPython 3.10.2, 3.11.7, 3.12.1, 3.13.2, 3.14.2 and
3.15.0rc1. LibCST 1.9 reads as much, whatever version runs it, but for `ONLY_AST`.
"""

from __future__ import annotations

SYNTAX: dict[tuple[int, int], dict[str, str]] = {
    (3, 10): {
        "positional only": "def f(a, b=1, /, c=2, *, d): ...\n",
        "walrus": "if (n := len(a)) > 10: print(n)\n[y := f(x), y**2]\n",
        "= in f-string": "f'{a=} {b = :>{w}}'\n",
        "unpacking in return": "def f(): return 1, *a\n",
        "continue in finally": "for x in y:\n    try: a\n    finally: continue\n",
        "return in finally": "def f():\n    try: return 1\n    finally: return 2\n",
        "any decorator": "@a[0].b(1)(2)\ndef f(): ...\n@(lambda f: f)\ndef g(): ...\n",
        "walrus as index": "a[b := 1]\n{c := 2}\n",
        "parenthesised with": "with (open(a) as b, open(c) as d,): pass\n",
        "parenthesised with, one": "with (a as b): pass\n",
        "match": (
            "match a:\n"
            "    case [1, *_, {'k': v, **r}] | P(x=0) if v: pass\n"
            "    case -1 + 2j | 'a' 'b' | None | a.b: pass\n"
            "    case (x): pass\n"
        ),
        "match as a name": (
            "match = case = type = _ = 1\nmatch[case](type)\nmatch * case, -type\nprint(match)\n"
        ),
        "f-string with a lambda": "f'{(lambda x: x)!r:>{w}}'\n",
        "f-string with ! and !=": "f'{a!=b}{a!r}'\n",
        "f-string with \\N": "f'\\N{DIGIT ONE}{a}'\n",
        "f-string raw": "rf'\\{a}{{}}'\n",
        "lazy as a name": "lazy = 1\nlazy(lazy)\n",
        "nonlocal": ("def f():\n    a = 1\n    def g():\n        nonlocal a\n        a = 2\n"),
        "return outside": "return 1\n",
        "yield outside": "yield 1\n",
        "break outside": "break\n",
        "same argument twice": "def f(a, a): ...\n",
        "same keyword twice": "f(a=1, a=2)\n",
        "two stars": "a, *b, *c = d\n",
        "annotated global": "def f():\n    x = 1\n    global x\n",
        "await outside": "await a\n",
        "number before a keyword": "1if a else 2\n0x1for x in y\n",
        "number before or": "x = 0xfor y\n",
        "bad escape": "'\\d'\n",
        "names that normalise": "ﬁ = 1\nprint(fi)\nlo\N{LATIN SMALL LETTER LONG S}s\n",
        "form feed": "\x0ca = 1\n\x0cdef f():\n    \x0c\n    b\n",
        "form feed resets": "def f():\n  \x0c  a\n",
        "backslash before a comment": "a = 1 \\\n# c\n",
        "line continued by nothing": "a = \\\n\\\n1\n",
        "indent continued": "if a:\n    b\n\\\n    c\n",
        "comment alone, indented": "if a:\n    b\n        # c\n  # d\n    e\n",
        "semicolon alone after": "a; b;\n",
        "ellipsis": "x[...]; class_ = ...\n",
        "star import in a function": "def f():\n    from a import *\n",
        "dict pattern rest": ("match a:\n    case {**rest}: ...\n    case {'a': 1, **rest}: ...\n"),
        "soft keyword case": "match x:\n    case case: ...\n",
        "match of a tuple": "match *a, b:\n    case c, *_: ...\n",
        "underscores": "1_000.0_1e1_0j + 0x_ff + 0b_1\n",
        "conditional lambda": "lambda: (yield) if a else b\n",
        "unparenthesised walrus in call": "f(a := 1, *b, **c)\nf(x for x in y)\n",
        "starred alone": "*a\n",
        "starred assignment": "*a, = b\n*a = b\n",
        "del of brackets": "del (a), [b, (c.d)], e[0]\n",
        "with of a tuple": "with (a, b): ...\nwith (a, b) as c: ...\nwith (yield): ...\n",
        "with of a call": "with (a), (b): ...\nwith (a)(b) as c: ...\n",
        "with and comma": "with (a as b, c as d): ...\nwith a as (b), c as [d]: ...\n",
        "async for outside": "async for a in b: ...\n",
        "starred calls": (
            "def f(*a, **k):\n"
            "    g = getattr(*a)\n"
            "    return g(*a, **k) or g(1, *a, b=2, **k, **{}) or zip(*zip(*a)) or super(*a)\n"
        ),
        "walrus in a comprehension": "x = [y for z in w if (y := z(*v)) is not None and any(y)]\n",
        "nested comprehensions": (
            "x = {a: [{c for c in b(*a)} for b in [*a, *y]] for a in z for y in (d for d in a)}\n"
        ),
        "match of what is called": (
            "def f(*a):\n"
            "    match g(*a):\n"
            "        case [x, *rest] | {'x': x, 'rest': [*rest]}: return x(*rest)\n"
            "        case int(real=n) as m if (k := n): return k, *m\n"
        ),
    },
    (3, 11): {
        "except*": "try: a\nexcept* (B, C) as d: e\n",
        "star in index": "a[*b]\na[1:2, *b, c]\ndef f(*args: *T): ...\n",
        "star in index of a result": "def f(*x: *T): return x[*x](*x)[0, *x].item(), x[*x[*x]]\n",
    },
    (3, 12): {
        "type parameters": ("def f[T: (int, str), *Ts, **P](a: T) -> T: ...\nclass A[T]: ...\n"),
        "type parameters of a method": (
            "class A[T]:\n    def f[*Ts](self, *a: *Ts) -> tuple[*Ts]: return self.f(*a)[*a]\n"
        ),
        "type statement": "type X[T] = list[T] | None\ntype Y = int\n",
        "f-string with its own quotes": "f'{a['b']}'\n",
        "f-string with a call": "f'{f(*a, **{'k': f'{b!r:>{c}}'})}'\n",
        "f-string nested": "f'{f'{f'{1}'}'}'\n",
        "f-string with a backslash": "f'{'\\n'.join(a)}'\n",
        "f-string with a comment": "f'''{\n    a  # why\n}'''\n",
        "f-string with lines": "f'{\n  a\n}'\n",
        "f-string with a deep format": "f'{a:{b:{c}}}'\n",
    },
    (3, 13): {
        "type parameter defaults": (
            "class A[T = int, *Ts = *tuple[int, ...], **P = [int]]: ...\ntype B[T = int] = A[T]\n"
        ),
    },
    (3, 14): {
        "t-string": "t'{a} and {b!r:>{w}}'\n",
        "t-string with calls": "x = t'{f(a)}' + g(t\"{h(b)=}\")\n",
        "except without parentheses": "try: a\nexcept B, C: d\n",
        "except* without parentheses": "try: a\nexcept* B, C: d\n",
    },
    (3, 15): {
        "lazy import": "lazy import a\nlazy from b import c\n",
        "unpacking in comprehensions": "[*x for x in y]\n{**d for d in e}\n{*x for x in y}\n",
    },
}
# Accepted by `ast`, and refused by LibCST: mistakes in these statements are not found.
ONLY_AST: dict[tuple[int, int], dict[str, str]] = {
    (3, 10): {
        "bases behind a keyword": "class A(x=1, *b): ...\n",
        "annotated name in parentheses": "(c): int = 1\n",
    },
    (3, 14): {
        "raw t-string, t first": "x = tr'{a}'\n",
        "t-strings side by side": "x = t'{a}' t'{b}'\n",
    },
}
REFUSED: dict[str, str] = {
    "except without parentheses but as": "try: a\nexcept B, C as d: e\n",
    "print statement": "print 'a'\n",
    "exec statement": "exec 'a'\n",
    "backticks": "`a`\n",
    "octal": "0777\n",
    "async as a name": "async = 1\n",
    "walrus at the top": "a := 1\n",
    "del of a call": "del f()\n",
    "assignment to None": "None = 1\n",
    "keyword then positional": "f(a=1, b)\n",
    "NUL": "a = 1\x00\n",
    "tabs and spaces": "if a:\n\tb\n        c\n",
    "non-breaking space": "a\xa0= 1\n",
    "semicolons": "a; b;\n;\n",
    "complex in pattern": "match a:\n    case 1 + 2: ...\n",
    "bytes not ascii": "b'é'\n",
    "unterminated": "x = 'abc\n",
    "unterminated triple": "x = '''abc\n",
    "indented": "  a = 1\n",
    "ur string": "ur'a'\n",
    "double underscore": "1__0\n",
    "generator with another argument": "f(x for x in y, 1)\n",
    "else without if": "else: a\n",
    "exception group mixed": "try: a\nexcept B: c\nexcept* D: e\n",
    "unicode escapes": "'\\N{foo}'\n",
    "trailing comma": "from a import b,\n",
}
