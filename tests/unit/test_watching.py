"""`amplint check --watch`: what came and what went after each change, and how it ends."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from amplint.cli import watching
from tests.command import LEGACY, MODERN, Amplint, Ran

SCALER = "scaler = torch.cuda.amp.GradScaler()\n"
Step = Callable[[], object]


pytestmark = pytest.mark.usefixtures("project")


@pytest.fixture
def watch(
    amplint: Amplint, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Callable[..., list[Ran]]:
    """Runs `check --watch`, takes a step whenever it waits for a change, and then Ctrl-C; returns
    what was printed in each round."""

    def watched(*steps: Step, options: tuple[str, ...] = ()) -> list[Ran]:
        printed: list[Ran] = []
        waiting: Iterator[Step] = iter(steps)

        def pause(seconds: float, _: object = None) -> None:
            if seconds < watching.EVERY:
                return
            printed.append(Ran(0, *capfd.readouterr()))
            step = next(waiting, None)
            if step is None:
                raise KeyboardInterrupt
            step()

        monkeypatch.setattr(watching, "pause", pause)
        assert amplint("check", "--watch", *options).status == 0
        return printed

    return watched


def written(path: Path, text: str) -> Step:
    """Writes a file, of another size or at another time than before."""

    def write() -> None:
        path.write_text(text)

    return write


def without_clock(text: str) -> str:
    return text.partition(" ")[2]


def found(ran: Ran) -> list[str]:
    """The places and the codes of the findings that are shown."""
    lines = (line.split() for line in ran.out.splitlines() if " AMP" in line[:40])
    return [" ".join(words[:2]) for words in lines]


def test_all_findings_are_shown_after_each_change(
    project: Path, watch: Callable[..., list[Ran]]
) -> None:
    (project / "a.py").write_text(LEGACY)
    first, second, third = watch(
        written(project / "a.py", LEGACY + SCALER), written(project / "a.py", MODERN + SCALER)
    )
    assert found(first) == ["a.py:3:6 AMP701"]
    assert first.out.endswith("\n1 file, 1 finding (1 migration); fixable: 1 safe\n")
    assert first.err == "amplint watches 1 file; stop with Ctrl-C\n"
    assert found(second) == ["a.py:3:6 AMP701", "a.py:5:10 AMP702"]
    assert found(third) == ["a.py:5:10 AMP702"]
    assert without_clock(second.err) == without_clock(third.err) == "a.py\n"


def test_files_come_and_go(project: Path, watch: Callable[..., list[Ran]]) -> None:
    first, second, third = watch(written(project / "b.py", LEGACY), (project / "b.py").unlink)
    assert "no Python files were found" in first.err
    assert found(second) == ["b.py:3:6 AMP701"]
    assert without_clock(second.err) == "b.py\n"
    assert found(third) == []


def test_a_file_that_cannot_be_read_has_a_finding(
    project: Path, watch: Callable[..., list[Ran]]
) -> None:
    (project / "a.py").write_text(LEGACY)
    _, broken, mended = watch(
        written(project / "a.py", "x = (\n"), written(project / "a.py", MODERN)
    )
    assert [line.split()[1] for line in found(broken)] == ["AMP000"]
    assert found(mended) == []


def test_settings_are_watched_too(project: Path, watch: Callable[..., list[Ran]]) -> None:
    (project / "a.py").write_text(LEGACY + SCALER)
    settings = project / "pyproject.toml"
    _, ignored, wrong, again = watch(
        written(settings, '[tool.amplint]\nignore = ["AMP701"]\n'),
        written(settings, "[tool.amplint]\nignore = 1\n"),
        written(settings, ""),
    )
    assert found(ignored) == ["a.py:5:10 AMP702"]
    assert without_clock(ignored.err) == "the settings\n"
    assert wrong.out == ""
    assert "`ignore` must be a list of strings, not 1\n" in wrong.err
    assert wrong.err.endswith("\namplint waits until that changes; stop with Ctrl-C\n")
    assert found(again) == ["a.py:3:6 AMP701", "a.py:5:10 AMP702"]


def test_a_baseline_is_watched_too(
    project: Path, amplint: Amplint, watch: Callable[..., list[Ran]]
) -> None:
    (project / "a.py").write_text(LEGACY)
    assert amplint("baseline").status == 0
    (project / "a.py").write_text(LEGACY + SCALER)
    first, second = watch((project / ".amplint-baseline.json").unlink)
    assert found(first) == ["a.py:5:10 AMP702"]
    assert found(second) == ["a.py:3:6 AMP701", "a.py:5:10 AMP702"]


def test_what_is_kept_finds_what_a_new_run_finds(
    project: Path, amplint: Amplint, watch: Callable[..., list[Ran]]
) -> None:
    """A function becomes hot by an edit in another file, and is so no more."""
    helper = (
        "def accuracy(logits, targets):\n"
        "    correct = (logits.argmax(dim=1) == targets).sum()\n"
        "    return correct.item() / len(targets)\n"
    )
    loop = (
        "import torch\nfrom helper import accuracy\n\n\n"
        "def train(model, loader, optimizer):\n    model.cuda()\n    for x, y in loader:\n"
        "        logits = model(x.cuda())\n        logits.sum().backward()\n"
        "        optimizer.step()\n        {call}\n"
    )
    (project / "helper.py").write_text(helper)
    train = project / "train.py"
    train.write_text(loop.format(call="pass"))
    _, hot, cold = watch(
        written(train, loop.format(call="print(accuracy(logits, y.cuda()))")),
        written(train, loop.format(call="pass  # again")),
    )
    assert "helper.py:3:12 AMP101" in found(hot)
    assert "helper.py:3:12 AMP101" not in found(cold)
    assert amplint("check", "--no-cache", "helper.py").status == 0


def test_it_may_be_quiet(project: Path, watch: Callable[..., list[Ran]]) -> None:
    (project / "a.py").write_text(LEGACY)
    first, second = watch(written(project / "a.py", MODERN), options=("-q",))
    assert (first.err, second.err) == ("", "")


@pytest.mark.parametrize(
    "arguments",
    [
        ["--fix"], ["--diff"], ["--format", "json"], ["--output-file", "a"], ["--statistics"],
        ["--add-ignores", "known"], ["--show-settings"],
    ],
)  # fmt: skip
def test_what_does_not_go_with_watching(amplint: Amplint, arguments: list[str]) -> None:
    ran = amplint("check", "--watch", *arguments)
    assert ran.status == 2
    assert f"{arguments[0]} cannot be combined with --watch" in ran.err


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--select", "AMP7O1"], "there is no rule `AMP7O1`"),
        (["--new-since", "nowhere"], "is not in a git repository"),
        (["--config", "gone.toml"], "gone.toml: cannot be read"),
    ],
)
def test_what_cannot_be_followed_from_the_start_ends_it(
    amplint: Amplint, project: Path, arguments: list[str], sentence: str
) -> None:
    (project / "a.py").write_text(LEGACY)
    ran = amplint("check", "--watch", *arguments)
    assert (ran.status, ran.out) == (2, "")
    assert sentence in ran.err


@pytest.mark.skipif(sys.platform == "win32", reason="a process there gets no SIGINT")
def test_ctrl_c_ends_a_process_with_0(project: Path) -> None:
    (project / "a.py").write_text(LEGACY)
    process = subprocess.Popen(
        [sys.executable, "-m", "amplint", "check", "--watch"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    assert process.stdout is not None and process.stderr is not None
    try:
        assert process.stderr.readline() == "amplint watches 1 file; stop with Ctrl-C\n"
        (project / "a.py").write_text(MODERN)
        assert without_clock(process.stderr.readline()) == "a.py\n"
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
    assert (process.returncode, err) == (0, "\n")
    assert out.splitlines()[-1] == "1 file, no findings"
