"""How a labelled fix commit is judged."""

from __future__ import annotations

import pytest

from amplint.ir.module_names import ProjectModules
from benchmarks import fix_commits
from benchmarks.fix_commits import Case, Found, Label, judge

LABEL = Label("net.py", 10, "AMP801", "sure", (9, 11))


def case_of(kind: str = "half-range", label: Label = LABEL) -> Case:
    return Case("one", "owner/name", "child", "parent", ("net.py",), kind, (label,))


def found(code: str, row: int, last: int = 0) -> Found:
    return Found(code, "net.py", row, last or row)


@pytest.mark.parametrize(
    ("before", "after", "state"),
    [
        ([], [], "missed"),
        ([found("AMP801", 12)], [], "found"),
        ([found("AMP801", 13)], [], "missed"),
        ([found("AMP801", 2, 9)], [], "found"),
        ([found("AMP802", 10)], [], "kin"),
        ([found("AMP802", 10), found("AMP801", 11)], [], "found"),
        ([found("AMP101", 10)], [], "missed"),
        ([found("AMP801", 10)], [found("AMP801", 9)], "still"),
        ([found("AMP801", 10)], [found("AMP801", 30)], "found"),
        ([found("AMP801", 10)], [found("AMP802", 10)], "found"),
    ],
)
def test_judging(before: list[Found], after: list[Found], state: str) -> None:
    assert judge(case_of(), before, after).state == state


def test_a_label_without_a_code_is_met_by_its_kind() -> None:
    label = Label("net.py", 10, None, "sure", (10, 10))
    assert judge(case_of(label=label), [found("AMP205", 10)], []).state == "kin"
    assert judge(case_of(label=label), [found("AMP101", 10)], []).state == "missed"


def test_another_file_is_another_place() -> None:
    elsewhere = Found("AMP801", "other.py", 10, 10)
    assert judge(case_of(), [elsewhere], []).state == "missed"


@pytest.mark.parametrize(
    ("path", "wanted", "expected"),
    [
        ("a/b.py", "a/b.py", 0),
        ("a/b.py", "a/c.py", 0),
        ("a/b.py", "a/c/d.py", 1),
        ("x/y/z.py", "a/c/d.py", 4),
    ],
)
def test_distance(path: str, wanted: str, expected: int) -> None:
    assert fix_commits.distance(path, (wanted,)) == expected


def test_what_a_file_imports() -> None:
    modules = ProjectModules(
        ["src/pkg/__init__.py", "src/pkg/net.py", "src/pkg/ops.py", "tools/run.py"]
    )
    text = b"import torch\nfrom . import ops\ndef late():\n    import pkg.net"
    found = set(fix_commits.imports("src/pkg/model.py", text, modules))
    assert found == {"src/pkg/__init__.py", "src/pkg/ops.py", "src/pkg/net.py"}
    assert not list(fix_commits.imports("src/pkg/old.py", b"print 'of Python 2'", modules))


def test_the_committed_sets_can_be_read() -> None:
    for path in fix_commits.SETS.glob("*.jsonl"):
        cases = fix_commits.load(path.stem)
        assert len({case.id for case in cases}) == len(cases) >= 40
        assert {case.kind for case in cases} <= fix_commits.FAMILIES.keys()
