"""`fix --apply` on copies, with what `python -m benchmarks.robustness applied` holds of each."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from benchmarks.robustness.applied import BOM, COOKIE, Held, Summary, lost, summarized, wrong_with
from benchmarks.robustness.files import GRAFT

PROGRAM = f'"""Ein Übungsstück."""\n{GRAFT}'.encode()
UTF_8 = Held(PROGRAM, 0o644)


def test_fixes_of_a_copy(tmp_path: Path) -> None:
    """Eight files: with line ends of Windows, a BOM, and Latin-1 among them."""
    (tmp_path / "pyproject.toml").touch()
    for number in range(9):
        (tmp_path / f"m{number}.py").write_bytes(PROGRAM)
    counts: Counter[str] = Counter()
    assert list(wrong_with(tmp_path, counts)) == []
    assert counts["files_changed"] >= 9 and counts["findings_fixed"] >= 18
    after = [path.read_bytes() for path in sorted(tmp_path.glob("*.py"))]
    assert [number for number, data in enumerate(after) if b"\r\n" in data] == [1, 4, 7]
    assert [number for number, data in enumerate(after) if data.startswith(BOM)] == [1, 6]
    assert [number for number, data in enumerate(after) if data.startswith(COOKIE)] == [8]


@pytest.mark.parametrize(
    ("after", "told"),
    [
        (UTF_8, []),
        (Held(PROGRAM, 0o600), ["mode 600 instead of 644"]),
        (Held(BOM + PROGRAM, 0o644), ["utf-8-sig instead of utf-8"]),
        (
            Held(PROGRAM.replace(b"\n", b"\r\n", 1), 0o644),
            ["line ends that it did not have: {b'\\r\\n'}"],
        ),
        (Held(PROGRAM + b"(", 0o644), ["does not compile"]),
    ],
)
def test_what_a_file_loses_is_told(after: Held, told: list[str]) -> None:
    assert list(lost(UTF_8, after)) == told


@pytest.mark.parametrize(
    ("said", "summary"),
    [
        ("fixed 1 finding in 1 file\n", Summary(1, 1, 0)),
        ("fixed 13 findings in 2 files, which reveals 1 other; --unsafe ...", Summary(13, 2, 1)),
        ("nothing to fix; --unsafe would fix 2 more\n", Summary(0, 0, 0)),
        ("amplint: error: m.py: cannot be written", None),
    ],
)
def test_the_summary_is_read(said: str, summary: Summary | None) -> None:
    assert summarized(said) == summary
