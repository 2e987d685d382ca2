"""Links in a terminal (OSC 8): a text that leads to an address when it is clicked."""

from __future__ import annotations

import os
from collections.abc import Mapping

# What terminals that show such links say of themselves in the environment.
PROGRAMS = frozenset({"Hyper", "WezTerm", "ghostty", "iTerm.app", "vscode", "zed"})  # TERM_PROGRAM
TERMS = frozenset({
    "alacritty", "contour", "foot", "foot-extra", "wezterm", "xterm-ghostty", "xterm-kitty",
})  # fmt: skip
THEIR_OWN = ("DOMTERM", "KONSOLE_VERSION", "WT_SESSION")
VTE = 5000  # the first version of VTE with links, which crashed on some of them
# Within one of these, the variables of the terminal around it are still there.
MULTIPLEXERS = ("STY", "TMUX")
FORCE = "FORCE_HYPERLINK"  # which other programs follow, too


def shown_by_terminal(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether the terminal has links, or the user says that it has, or wants none."""
    forced = environment.get(FORCE, "")
    if forced:
        return forced != "0"
    term = environment.get("TERM", "")
    if term.startswith(("dumb", "screen", "tmux")) or any(map(environment.get, MULTIPLEXERS)):
        return False
    vte = environment.get("VTE_VERSION", "")
    return (
        environment.get("TERM_PROGRAM") in PROGRAMS
        or term in TERMS
        or any(map(environment.get, THEIR_OWN))
        or (vte.isdecimal() and int(vte) > VTE)
    )


def link(text: str, address: str) -> str:
    """The text as a link, if the address is one that a terminal takes."""
    if not address or not (address.isascii() and address.isprintable()):
        return text
    return f"\x1b]8;;{address}\x1b\\{text}\x1b]8;;\x1b\\"
