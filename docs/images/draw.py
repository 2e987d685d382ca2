"""Draw the pictures of the start page from what amplint prints: `python docs/images/draw.py`.

Needs the extra `docs`, and Chromium for the picture of the HTML report. The terminal is text in
SVG, sharp at any size; tests/fixtures/test_pages.py holds it against the command's output.
"""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import SVG_EXPORT_THEME
from rich.text import Text

IMAGES = Path(__file__).resolve().parent
ROOT = IMAGES.parent.parent
# Two findings of the six, so that the picture can be read.
SHOWN = "amplint check --select AMP1,AMP3 examples/"
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
# As rich's own, but for its fonts, which a browser would fetch from elsewhere.
SVG = """\
<svg viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg" role="img">
<title>The findings of amplint in a terminal</title>
<style>
.{unique_id}-matrix {{ font: {char_height}px/{line_height}px ui-monospace, monospace; }}
{styles}
</style>
<defs>
<clipPath id="{unique_id}-clip-terminal">
<rect width="{terminal_width}" height="{terminal_height}"/>
</clipPath>
{lines}
</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""


def amplint(*arguments: str) -> str:
    """The output of a command, in colours."""
    done = subprocess.run(
        [sys.executable, "-m", "amplint", *arguments],
        cwd=ROOT,
        env={**os.environ, "FORCE_COLOR": "1"},
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    if done.returncode != 1:
        raise SystemExit(f"amplint {' '.join(arguments)} ended with {done.returncode}")
    return done.stdout


def terminal() -> str:
    """The report in a terminal, as SVG."""
    printed = Text.from_ansi(amplint(*SHOWN.split()[1:], "--no-cache"))
    longest = max(len(line) for line in printed.plain.split("\n"))
    console = Console(record=True, width=longest, file=io.StringIO())
    console.print(f"$ {SHOWN}\n", highlight=False)
    console.print(printed)
    return console.export_svg(title="", theme=SVG_EXPORT_THEME, code_format=SVG, unique_id="report")


def report(picture: Path) -> None:
    """The HTML report in a browser, as PNG."""
    browser = next((found for name in BROWSERS if (found := shutil.which(name))), None)
    if browser is None:
        raise SystemExit(f"none of {', '.join(BROWSERS)} is installed")
    with tempfile.TemporaryDirectory() as directory:
        page = Path(directory) / "report.html"
        amplint("check", "--no-cache", "--format", f"html:{page}", "--format", "text", "examples/")
        subprocess.run(
            [
                *(browser, "--headless", "--no-sandbox", "--hide-scrollbars"),
                *("--blink-settings=preferredColorScheme=1", "--window-size=1100,1000"),
                *(f"--screenshot={picture}", page.as_uri()),
            ],
            check=True,
            capture_output=True,
            timeout=120,
        )


if __name__ == "__main__":
    (IMAGES / "terminal.svg").write_text(terminal(), encoding="utf-8")
    report(IMAGES / "report.png")
