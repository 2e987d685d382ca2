"""The frame of HTML pages that need no other file, and escaping of untrusted text in them.

A page may come from code that nobody trusts: every text is escaped, and a policy in the page lets
the browser load nothing and run no script but the page's own.
"""

from __future__ import annotations

import base64
import hashlib
import html
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from amplint.util.escaping import lines_without_controls, without_controls

CODE = re.compile(r"`([^`]+)`")


@dataclass(frozen=True)
class Section:
    """A part of a page.

    Args:
        html: what it shows.
        style: in addition to that of the page.
    """

    html: str
    style: str = ""


def document(title: str, parts: Iterable[str], style: str, script: str = "") -> str:
    """The page, in ASCII: it is right whatever standard output encodes.

    Args:
        title: plain text.
        parts: HTML.
        style: in addition to that of all pages.
        script: for the end of the page; "" for none.
    """
    style = resource("page.css") + style
    body = "\n".join(parts)
    run = f"<script>{script}</script>" if script else ""
    text = (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy(style, script)}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{style}</style></head>\n"
        f"<body><h1>{escape(title)}</h1>\n{body}\n{run}</body></html>\n"
    )
    return text.encode("ascii", "xmlcharrefreplace").decode("ascii")


def policy(style: str, script: str) -> str:
    """The Content-Security-Policy: this style, this script, and nothing from anywhere."""
    rules = ["default-src 'none'", f"style-src {digest(style)}"]
    if script:
        rules.append(f"script-src {digest(script)}")
    return "; ".join([*rules, "base-uri 'none'", "form-action 'none'"])


def digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode('ascii')).digest()).decode()}'"


def resource(name: str) -> str:
    """A style or a script that lies beside this module."""
    return Path(__file__).with_name(name).read_text(encoding="ascii")


def escape(value: object) -> str:
    """One line of text, also for attributes."""
    return html.escape(without_controls(str(value)))


def escape_lines(text: str) -> str:
    """Text of several lines."""
    return html.escape(lines_without_controls(text))


def prose(text: str) -> str:
    """A message, in which `code` stands between backticks."""
    return CODE.sub(r"<code>\1</code>", escape_lines(text))
