"""The parts of the speed benchmark that need no download: how it measures, and what it says."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from benchmarks.speed import (
    CLICK,
    COLD,
    EDIT,
    FIX,
    FIX_AGAIN,
    FIX_APPLY,
    FIX_UNSAFE,
    HELP,
    LIBCST,
    MYPY,
    RUFF,
    TORCHFIX,
    TREES,
    WARM,
    Checked,
    Command,
    Measured,
    Restored,
    Row,
    Sample,
    Tool,
    _edited,
    before,
    commands,
    edit,
    installed,
    measure,
    measured_before,
    middle_file,
    rows,
    run_rounds,
    table,
    targets,
    verdicts,
)
from tests.helpers import ROOT

METHOD = """\
def free():
    a = 1
    b = 2
    return a + b

class Short:
    def forward(self, x): return "\u2028"

class Model:
    def longer(self):
        a = 1
        b = 2
        c = 3
        d = 4
        return a + b + c + d
    def forward(self, x):
        \"\"\"Docstring.\"\"\"
        if x:
            return x
        return -x
"""


def samples(*seconds: float, printed: str = "") -> list[Sample]:
    return [Sample(each, 2 * each, 100 * each, printed) for each in seconds]


def measured(lines: int, **seconds: float) -> Measured:
    found = rows({name: samples(each) for name, each in seconds.items()}, RUFF)
    return Measured("1.0", 1, lines, RUFF, "a.py", found, {})


def test_a_row_has_the_median_the_most_memory_and_the_ratio_of_medians() -> None:
    found = rows({RUFF: samples(4.0, 1.0, 2.0), COLD: samples(3.0, 9.0)}, RUFF)
    assert found == {
        RUFF: Row([4.0, 1.0, 2.0], 2.0, 4.0, 400.0, 1.0),
        COLD: Row([3.0, 9.0], 6.0, 12.0, 900.0, 3.0),
    }
    assert rows({COLD: samples(3.0)}, RUFF)[COLD].ratio is None


def test_targets_are_met_on_the_bound_and_not_beyond() -> None:
    exact = {
        "timm": measured(
            1000,
            **{COLD: 2.0, WARM: 0.5, EDIT: 1.0, RUFF: 0.5},
            **{TORCHFIX: 50.0, MYPY: 2.0},
        ),
        "transformers": measured(10_000, **{COLD: 24.0, WARM: 5.0, EDIT: 4.9}),
        "lightweight-gan": measured(100, **{WARM: 0.5, CLICK: 0.1, HELP: 0.25}),
        "s3prl": measured(100, **{WARM: 0.5, FIX: 1.5}),
    }
    wanted = [25, 1, 1, 5, 2, 2, 1.2, 2400.0, 2.5]
    assert [target.measured for target in targets(exact)] == pytest.approx(wanted)
    assert [target.met for target in targets(exact)] == [*[True] * 7, False, True]

    slower = measured(1000, **{COLD: 2.1, TORCHFIX: 50.0, MYPY: 2.0, WARM: 0.6, RUFF: 0.5})
    met = {target.text: target.met for target in targets({"timm": slower})}
    assert [value for value in met.values() if value is not None] == [False] * 3
    assert set(met.values()) == {False, None}


def test_the_tables_say_what_is_not_measured_and_why() -> None:
    one = Measured("1.0", 1, 1234, RUFF, "a.py", rows({COLD: samples(2.0)}, RUFF), {TORCHFIX: "no"})
    said = table("timm", one).splitlines()
    assert said[0] == "timm 1.0: 1 files, 1,234 lines; the changed file is a.py"
    assert said[2].split() == ["amplint,", "cold", "1", "2.000", "4.000", "200", "-"]
    assert said[3].split() == [TORCHFIX, "no"]
    last = verdicts(targets({"timm": one})).splitlines()[-1]
    assert last.split()[-4:] == ["2.5", "-", "not", "measured"]


def test_an_edit_changes_the_body_of_the_longest_forward() -> None:
    first, second = edit(METHOD, 1), edit(METHOD, 2)
    assert first.splitlines(keepends=True) != METHOD.splitlines(keepends=True)
    assert len({ast.dump(ast.parse(text)) for text in (METHOD, first, second)}) == 3
    method = ast.parse(first).body[2].body[1]  # type: ignore[attr-defined]
    assert ast.unparse(method.body[-2]) == "changed_in_round = 1"
    assert first.replace("        changed_in_round = 1\n", "") == METHOD


@pytest.mark.parametrize(
    "text", ["def forward():\n    pass\n", "class A:\n    def forward(self): pass\n", ""]
)
def test_where_there_is_no_forward_nothing_is_changed(text: str) -> None:
    with pytest.raises(ValueError, match=r"^no "):
        edit(text, 1)


def test_a_file_of_middle_size_is_changed_and_restored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = {"a": METHOD, "b": METHOD * 2, "c": METHOD * 3, "d": METHOD * 4, "e": "x = 1\n" * 90}
    for name, text in texts.items():
        (tmp_path / f"{name}.py").write_text(text)
    assert middle_file(tmp_path).name == "c.py"

    checked: list[Sequence[str]] = []
    monkeypatch.setattr(
        "benchmarks.speed.measure", lambda command, _: checked.append(command.words)
    )
    (tmp_path / ".amplint_cache").mkdir()
    seen = set()
    for number in range(2):
        with _edited(tmp_path, number):
            seen.add((tmp_path / "c.py").read_text())
        assert (tmp_path / "c.py").read_text() == texts["c"]
    assert len(seen | {texts["c"]}) == 3
    assert len(checked) == 2, "the cache is filled before each change"


def python(code: str, good: tuple[int, ...] = (0,)) -> Command:
    return Command("python", (sys.executable, "-c", code), 1, good)


def test_the_memory_is_that_of_the_largest_process(tmp_path: Path) -> None:
    """Measured by a process of its own: a large one would be in its children's figures."""
    allocate = [sys.executable, "-c", "b'x' * 200_000_000"]
    for code, least, most in (
        ("pass", 1, 100),
        (f"import subprocess; subprocess.run({allocate})", 200, 300),
    ):
        script = (
            "from pathlib import Path\nfrom benchmarks.speed import Command, measure\n"
            f"command = Command('python', {python(code).words}, 1)\n"
            f"print(measure(command, Path({str(tmp_path)!r})).peak_mb)"
        )
        ran = subprocess.run(
            [sys.executable, "-c", script], cwd=ROOT, capture_output=True, check=True
        )
        assert least < float(ran.stdout) < most


@pytest.mark.parametrize("code", ["raise SystemExit(2)", "1 / 0"])
def test_a_command_that_fails_fails_the_benchmark(code: str, tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="python: ended with"):
        measure(python(code, (0, 1)), tmp_path)


def test_commands_take_turns_and_warm_must_say_what_cold_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[str] = []

    def run(command: Command, _: Path) -> Sample:
        ran.append(command.name)
        return samples(1.0, printed="other" if ran.count(WARM) == 3 else "same")[0]

    monkeypatch.setattr("benchmarks.speed.measure", run)
    turns = [Command(COLD, (), 1), Command(WARM, (), 2), Command(RUFF, (), 2)]
    found = run_rounds("tree", tmp_path, turns)
    assert ran == [COLD, WARM, RUFF, WARM, RUFF]
    assert [len(found[name]) for name in (COLD, WARM, RUFF)] == [1, 2, 2]
    with pytest.raises(SystemExit, match="does not print"):
        run_rounds("tree", tmp_path, turns)


def test_what_takes_minutes_is_run_once() -> None:
    tools = {name: Path("bin") for name in (TORCHFIX, MYPY, RUFF)}
    rounds = {each.name: each.rounds for each in commands(TREES["timm"], 5, tools, None, "a.py")}
    assert (rounds[COLD], rounds[LIBCST], rounds[TORCHFIX], rounds[MYPY]) == (5, 5, 1, 5)
    rounds = {
        each.name: each.rounds
        for each in commands(TREES["transformers"], 5, {}, Path("before"), "a.py")
    }
    assert (rounds[COLD], rounds[WARM], rounds[EDIT], rounds[LIBCST]) == (1, 5, 5, 1)
    assert rounds[before(COLD)] == 1
    assert RUFF not in rounds


def test_fix_is_measured_after_a_check_with_both_states() -> None:
    names = [each.name for each in commands(TREES["s3prl"], 1, {}, Path("earlier"), "a.py")]
    for name in (COLD, WARM, FIX, FIX_AGAIN, FIX_UNSAFE, FIX_APPLY):
        assert names.count(name) == names.count(before(name)) == 1
    # What `fix` has kept is there for the one after it, of the same amplint.
    assert names.index(FIX_AGAIN) == names.index(FIX) + 1
    assert names.index(before(FIX_AGAIN)) == names.index(before(FIX)) + 1


def test_fix_begins_with_what_a_check_has_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = tmp_path / "tree"
    (tree / ".amplint_cache").mkdir(parents=True)
    checked: list[str] = []

    def check(command: Command, _: Path) -> None:
        checked.append(command.name)
        (tree / ".amplint_cache").mkdir()
        (tree / ".amplint_cache/entry").write_text("of the check")

    monkeypatch.setattr("benchmarks.speed.measure", check)
    (tree / "a.py").write_text("before\n")
    for number in range(2):
        with Restored(Checked(Command(WARM, (), 1)))(tree, number):
            assert [path.name for path in (tree / ".amplint_cache").iterdir()] == ["entry"]
            (tree / ".amplint_cache/of_fix").touch()
            (tree / "a.py").write_text("after\n")
        assert (tree / "a.py").read_text() == "before\n"
    assert checked == [WARM], "what it has kept is laid there again"


def test_an_update_keeps_the_other_trees(tmp_path: Path) -> None:
    results = tmp_path / "speed.json"
    results.write_text((ROOT / "benchmarks/results/speed.json").read_text())
    known = measured_before(results)
    assert known["timm"].commands[COLD].seconds > known["timm"].commands[WARM].seconds


def test_a_tool_that_cannot_be_installed_is_left_out_and_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def install(tool: Tool, into: Path) -> Path:
        if tool.package == "ruff":
            return into / "bin"
        raise subprocess.CalledProcessError(1, "pip", stderr="...\nERROR: no such version\n")

    monkeypatch.setattr("benchmarks.speed.install", install)
    tools, missing = installed([RUFF, TORCHFIX], tmp_path)
    assert tools == {RUFF: tmp_path / "bin"}
    assert missing == {TORCHFIX: "could not be installed: ERROR: no such version"}
    assert [each.name for each in commands(TREES["timm"], 1, tools, None, "a.py")].count(
        TORCHFIX
    ) == 0
