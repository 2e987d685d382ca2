"""Programs that somebody has mistyped, mangled or generated: mutations of the bytes of a file."""

from __future__ import annotations

import io
import re
import sys
import tokenize
from collections.abc import Callable
from random import Random

Mutation = Callable[[Random, bytes], bytes]

NAME = re.compile(rb"\b[A-Za-z_]\w*")
COOKIES = (
    b"latin-1", b"ascii", b"utf-16", b"utf-8-sig", b"klingon", b"cp1252", b"shift-jis", b"utf-7",
    b"rot13", b"idna", b"undefined", b"hex", b"iso2022_jp", b"big5", b"gb18030", b"koi8-r",
)  # fmt: skip
ODD = (
    b"\f", b"\v", b"\x00", b"\x1a", b"\xc2\xa0", b"\xe2\x80\xa8", b"\xe3\x80\x80", b"\xef\xbb\xbf",
    b"\xff", b"\x85", b"\\", b"\\\n", b"\r", b"\t", b"'", b'"', b'"""', b"#", b"(", b"]", b"}",
    b":", b";", b"=", b"*", b"**", b"@", b"->", b":=", b"\xcc\x81", b"\xf0\x9f\x99\x82", b"{",
    b"\n", b"$",
)  # fmt: skip
WORDS = (
    b"await", b"async", b"yield", b"lambda", b"match", b"case", b"type", b"lazy", b"not", b"in",
    b"is", b"None", b"else", b"except*", b"del", b"global", b"nonlocal", b"return", b"break",
    b"import", b"from", b"with", b"f'{x}'", b"t'{x}'", b"...", b"0x1f", b"1_0.j", b"*a", b"**a",
    b"print",
)  # fmt: skip

EXPRESSIONS = (
    b"NAME(*NAME, **kwargs)", b"NAME(NAME, *args, key=1, **kwargs)", b"getattr(*NAME)",
    b"NAME(*args, *NAME, NAME)", b"(found := NAME)", b"[y for x in NAME if (y := x)]",
    b"[[b for b in a(*NAME)] for a in [*NAME, *(c for c in NAME)]]", b"(lambda *a: NAME)(*NAME)",
    b"{**NAME, 'NAME': {k: v for k, v in zip(*NAME)}}", b"(NAME, *NAME)", b"(NAME or NAME)[0, ...]",
    *((b"NAME[*NAME]", b"NAME[0, *NAME, 1:]") if sys.version_info >= (3, 11) else ()),
    *((b"f'{NAME['x']!r:>{len(f'{NAME}')}}'",) if sys.version_info >= (3, 12) else ()),
)  # fmt: skip
STATEMENTS = (
    b"match NAME:\n    case [a, *rest] if rest:\n        a(*rest)\n    case _:\n        NAME\n",
    b"match NAME(*NAME):\n    case {'loss': loss, **others}:\n        print(loss.item())\n",
    b"while (chunk := NAME(*args)):\n    first, *others = chunk\n",
    b"def inner(*args, **kwargs):\n    return NAME(*args, **kwargs)\n",
    b"for first, (second, *others) in zip(*NAME):\n    NAME(*others)\n",
    *(
        (b"def inner(*args: *NAME):\n    return args[*args]\n",)
        if sys.version_info >= (3, 11)
        else ()
    ),
    *(
        (b"class Inner[T, *Ts]:\n    def go[U](self, *a: *Ts) -> U:\n        return NAME(*a)\n",)
        if sys.version_info >= (3, 12)
        else ()
    ),
)


def lines(data: bytes) -> list[bytes]:
    return data.splitlines(keepends=True) or [b""]


def at_line(change: Callable[[Random, list[bytes], int], None]) -> Mutation:
    """A change of the lines, at one of them."""

    def mutate(random: Random, data: bytes) -> bytes:
        some = lines(data)
        change(random, some, random.randrange(len(some)))
        return b"".join(some)

    return mutate


def delete_line(_: Random, some: list[bytes], at: int) -> None:
    del some[at]


def duplicate_line(_: Random, some: list[bytes], at: int) -> None:
    some.insert(at, some[at])


def move_line(random: Random, some: list[bytes], at: int) -> None:
    some.insert(random.randrange(len(some)), some.pop(at))


def indent_line(random: Random, some: list[bytes], at: int) -> None:
    some[at] = random.choice([b" ", b"    ", b"\t", b"\f", b" \f ", b"\t    "]) + some[at]


def dedent_line(_: Random, some: list[bytes], at: int) -> None:
    some[at] = some[at].removeprefix(b"    ")


def end_line(random: Random, some: list[bytes], at: int) -> None:
    ends = [b"\r", b"\r\n", b"", b" \\\n", b"  # c\n", b"\x0c\n", b";\n", b"; x\n", b"\n\n\n"]
    some[at] = some[at].rstrip(b"\r\n") + random.choice(ends)


def insert_line(random: Random, some: list[bytes], at: int) -> None:
    indent = some[at][: len(some[at]) - len(some[at].lstrip(b" \t"))]
    some.insert(at, indent + random.choice(WORDS) + b" " + random.choice(WORDS) + b"\n")


def nest_block(random: Random, some: list[bytes], at: int) -> None:
    """Put the rest of the file one level deeper."""
    header = random.choice([b"if a:\n", b"with a as b, c:\n", b"class A:\n", b"async def f():\n"])
    some[at:] = [header, *(b"  " + line for line in some[at:])]


def delete_token(random: Random, data: bytes) -> bytes:
    try:
        tokens = list(tokenize.generate_tokens(io.StringIO(data.decode()).readline))
    except (SyntaxError, UnicodeDecodeError, tokenize.TokenError):
        return delete_bytes(random, data)
    some = data.decode().splitlines(keepends=True)
    token = random.choice(tokens)
    row = token.start[0] - 1
    if token.start[0] == token.end[0] and row < len(some):
        some[row] = some[row][: token.start[1]] + some[row][token.end[1] :]
    return "".join(some).encode()


def delete_bytes(random: Random, data: bytes) -> bytes:
    start = random.randrange(len(data) + 1)
    return data[:start] + data[start + random.randrange(1, 20) :]


def cut_off(random: Random, data: bytes) -> bytes:
    return data[: random.randrange(len(data) + 1)]


def insert_odd(random: Random, data: bytes) -> bytes:
    start = random.randrange(len(data) + 1)
    return data[:start] + random.choice(ODD) * random.choice([1, 1, 1, 2, 50]) + data[start:]


def flip_byte(random: Random, data: bytes) -> bytes:
    start = random.randrange(len(data) + 1)
    return data[:start] + bytes([random.randrange(256)]) + data[start + 1 :]


def name_for_name(random: Random, data: bytes) -> bytes:
    """One name takes the place of another."""
    names = list(NAME.finditer(data))
    if not names:
        return data
    one, other = random.choice(names), random.choice(names)
    return data[: one.start()] + other.group() + data[one.end() :]


def swap_names(random: Random, data: bytes) -> bytes:
    """Two names change places everywhere."""
    names = sorted(set(NAME.findall(data)))
    if not names:
        return data
    one, other = random.choice(names), random.choice(names)
    swapped = {one: other, other: one}
    return NAME.sub(lambda match: swapped.get(match.group(), match.group()), data)


def word_for_name(random: Random, data: bytes) -> bytes:
    """A word of Python, or something that is no name, takes the place of a name."""
    names = list(NAME.finditer(data))
    if not names:
        return data
    one = random.choice(names)
    return data[: one.start()] + random.choice(WORDS) + data[one.end() :]


def for_a_name(make: Callable[[Random, bytes], bytes]) -> Mutation:
    """An expression around a name takes its place."""

    def mutate(random: Random, data: bytes) -> bytes:
        names = list(NAME.finditer(data))
        if not names:
            return data
        one = random.choice(names)
        return data[: one.start()] + make(random, one.group()) + data[one.end() :]

    return mutate


def brackets(random: Random, name: bytes) -> bytes:
    depth = random.choice([1, 5, 60, 150, 250])
    return b"(" * depth + name + b")" * depth


def chain(random: Random, name: bytes) -> bytes:
    link = random.choice(
        [b" and a", b" + a", b".a", b"[0]", b"()", b" if a else b", b", a", b" < a"]
    )
    return name + link * random.choice([1, 20, 400, 1500])


def huge(random: Random, name: bytes) -> bytes:
    return random.choice(
        [
            b"0x" + b"f" * 9000,
            b"9" * 4000,
            b"9" * 5000,
            b"'" + b"x" * 100_000 + b"'",
            b"'''" + b"\n" * 3000 + b"'''",
            b"[" + name + b", 1" * 5000 + b"]",
            b"f'{" + name + b"}" + b"{a}" * 500 + b"'",
            b"1e999",
        ]
    )


def in_an_expression(random: Random, name: bytes) -> bytes:
    """What real code holds: calls with stars, walruses, comprehensions in each other ..."""
    return random.choice(EXPRESSIONS).replace(b"NAME", name)


def with_a_statement(random: Random, some: list[bytes], at: int) -> None:
    """A block of a few statements around nothing of the file but a name."""
    indent = some[at][: len(some[at]) - len(some[at].lstrip(b" \t"))]
    names = NAME.findall(some[at]) or [b"x"]
    block = random.choice(STATEMENTS).replace(b"NAME", random.choice(names))
    some[at:at] = [indent + line for line in block.splitlines(keepends=True)]


def byte_order_mark(_: Random, data: bytes) -> bytes:
    return b"\xef\xbb\xbf" + data


def cookie(random: Random, data: bytes) -> bytes:
    return b"# -*- coding: " + random.choice(COOKIES) + b" -*-\n" + data


def told_cookie(random: Random, data: bytes) -> bytes:
    """A cookie that says how the file is encoded."""
    encoding = random.choice(["latin-1", "cp1252", "utf-16", "shift-jis", "utf-7", "utf-8-sig"])
    text = f"# coding: {encoding}\n# é\n" + data.decode("utf-8", "replace")
    return text.encode(encoding, "replace")


def carriage_returns(_: Random, data: bytes) -> bytes:
    return data.replace(b"\n", b"\r")


def crlf(_: Random, data: bytes) -> bytes:
    return data.replace(b"\n", b"\r\n")


def mixed(random: Random, data: bytes) -> bytes:
    ends = [b"\n", b"\r\n", b"\r"]
    return b"".join(line.rstrip(b"\r\n") + random.choice(ends) for line in lines(data))


def tabs(random: Random, data: bytes) -> bytes:
    """Tabs for the indentation, of some lines or of all."""
    share = random.choice([1.0, 0.9])
    return b"".join(
        line.replace(b"    ", b"\t") if random.random() < share else line for line in lines(data)
    )


def form_feeds(_: Random, data: bytes) -> bytes:
    return re.sub(rb"^(?=\S)", b"\f", data, flags=re.MULTILINE)


def unicode_names(_: Random, data: bytes) -> bytes:
    """Letters that Python takes for others: \N{MATHEMATICAL FRAKTUR SMALL L}oss is `loss`."""
    return re.sub(rb"\bl(?=oss\b)", "\N{MATHEMATICAL FRAKTUR SMALL L}".encode(), data)


def twice(_: Random, data: bytes) -> bytes:
    return data + b"\n" + data


MUTATIONS: tuple[Mutation, ...] = (
    *map(
        at_line,
        (
            delete_line, duplicate_line, move_line, indent_line, dedent_line, end_line, insert_line,
            nest_block, with_a_statement,
        ),
    ),
    delete_token, delete_token, delete_bytes, cut_off, insert_odd, insert_odd, flip_byte,
    name_for_name, name_for_name, swap_names, word_for_name,
    *map(for_a_name, (brackets, chain, huge, in_an_expression)),
    byte_order_mark, cookie, told_cookie, carriage_returns, crlf, mixed, tabs, form_feeds,
    unicode_names, twice,
)  # fmt: skip


def mutant(random: Random, data: bytes) -> bytes:
    """The program after a few mutations."""
    for _ in range(random.choice([1, 1, 2, 3])):
        data = random.choice(MUTATIONS)(random, data)
    return data
