"""Draw validation sets of training repositories, before anybody has looked at their code.

    python -m benchmarks.repositories.draw order                 names.txt in the order of taking
    python -m benchmarks.repositories.draw files DIR             which files of one to label
    python -m benchmarks.repositories.draw take SET MIRRORS DIR  take some, lay them out in DIR

names.txt holds what the searches gave; left_out.txt those that must not be drawn (kept back, named
in this project, a copy of one of these) and why. The others are sorted in lower case and shuffled
by the seed; that order is the order of taking. Each set goes on where the one before it ended.

A repository is skipped, with the reason in skipped.txt, that cannot be had, that is a copy of one
that has been labelled, that has no Python file with a training step, that has more than 400 Python
files, or of which fewer than two files remain.
Of each, the six files are labelled that speak most of what amplint looks at (the words of
tests/accuracy/draw.py, counted); not tests, documentation or third-party code, nor a file of more
than 1,200 lines, without any of the words, that no Python 3 parses, of whose lines six in ten
stand in one file of a repository that has been labelled already, or nine in ten in a file of its
own repository that was chosen before it. Nothing of it rests on what amplint says.
"""

from __future__ import annotations

import ast
import os
import random
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from tests.accuracy.draw import WORDS

SEED = 9
SETS = {"ninth": 24, "tenth": 16, "eleventh": 16}  # how many repositories each takes
MOST_PYTHON_FILES = 400
MOST_FILES, LEAST_FILES = 6, 2  # of a repository
MOST_LINES = 1200  # of a file
COPIED = 0.6  # of its lines in one file of a repository that has been labelled
REPEATED = 0.9  # of its lines in one file of its own that was chosen
LARGEST_CONFIGURATION = 200_000  # bytes
TABLES = ("repositories", "files", "skipped")

HERE = Path(__file__).resolve().parent
# What has been labelled and is often copied; for `take` these are fetched too.
LABELLED = (
    "NVIDIA/BigVGAN",
    "DLR-RM/stable-baselines3",
    "coqui-ai/TTS",
    "facebookresearch/DiT",
    "facebookresearch/mae",
    "jingyaogong/minimind",
    "mlfoundations/open_clip",
    "neonbjb/tortoise-tts",
    "openai/guided-diffusion",
    "speechbrain/speechbrain",
    "vturrisi/solo-learn",
)
# Copies under another name, found by comparing lines when they had been fetched.
COPIES = {
    "Amireux778/mini-LLM-Chinese": "its trainers are those of jingyaogong/minimind of early 2025",
    "ChaoningZhang/Dual-temperature": "19 of its 28 files are those of vturrisi/solo-learn",
}

NOT_TRAINING = re.compile(
    r"(^|/)(tests?|docs?|examples?/data|build|third_?party|vendor|externals?|submodules)(/|$)|"
    r"(^|/)(test_|conftest|setup\.py)"
)
TRAINING_STEP = re.compile(r"\bbackward\(|LightningModule|Trainer\(")
CONFIGURATION = re.compile(
    r"(^|/)(requirements[^/]*\.txt|setup\.py|pyproject\.toml|[^/]+\.(ya?ml|json))$"
)


def order() -> list[str]:
    """The repositories in the order in which they are taken."""
    names = column(HERE / "names.txt")
    left_out = set(column(HERE / "left_out.txt"))
    drawn = sorted((name for name in names if name not in left_out), key=str.lower)
    random.Random(SEED).shuffle(drawn)
    return drawn


def column(table: Path) -> list[str]:
    return [line.split("\t")[0] for line in table.read_text().splitlines()]


def files(root: Path, labelled: list[frozenset[str]]) -> list[str]:
    """The files of a repository that are labelled, those with most of the words first."""
    counted = []
    for path in root.rglob("*.py"):
        name = path.relative_to(root).as_posix()
        text = path.read_text(encoding="utf-8", errors="replace")
        count = len(WORDS.findall(text))
        if count and not NOT_TRAINING.search(name) and len(text.splitlines()) <= MOST_LINES:
            counted.append((-count, name, text))
    chosen: dict[str, frozenset[str]] = {}
    for _, name, text in sorted(counted):
        lines = telling_lines(text)
        repeats = stands_in(lines, chosen.values(), REPEATED)
        if not repeats and parses(text) and not stands_in(lines, labelled, COPIED):
            chosen[name] = lines
        if len(chosen) == MOST_FILES:
            break
    return list(chosen)


def parses(text: str) -> bool:
    try:
        ast.parse(text)
    except (SyntaxError, ValueError):
        return False
    return True


def stands_in(lines: frozenset[str], others: Iterable[frozenset[str]], share: float) -> bool:
    return any(len(lines & other) >= share * len(lines) for other in others)


def telling_lines(text: str) -> frozenset[str]:
    """The lines of a file by which a copy is recognized."""
    stripped = (line.strip() for line in text.splitlines())
    return frozenset(line for line in stripped if len(line) > 10 and not line.startswith("#"))


def snapshot(mirrors: Path, name: str) -> tuple[str, dict[str, bytes]] | None:
    """The newest commit of a repository that was fetched, and what is laid out of its files."""
    root = mirrors / name.replace("/", "+") / "repo"
    root = root / ".git" if (root / ".git").exists() else root
    if not root.exists():
        return None
    objects = {}
    for entry in git(root, "ls-tree", "-r", "-z", "HEAD").decode(errors="replace").split("\0")[:-1]:
        (mode, _, identity), path = entry.split("\t")[0].split(), entry.split("\t")[1]
        regular = mode in ("100644", "100755")  # no symbolic link, no submodule
        if regular and (path.endswith(".py") or CONFIGURATION.search(path)):
            objects[path] = identity
    return git(root, "rev-parse", "HEAD").decode().strip(), {
        path: content
        for path, content in zip(objects, contents(root, list(objects.values())), strict=True)
        if content is not None and (path.endswith(".py") or len(content) < LARGEST_CONFIGURATION)
    }


def contents(root: Path, identities: list[str]) -> Iterator[bytes | None]:
    """The files of these identities; None of one that the snapshot lacks."""
    answer = git(root, "cat-file", "--batch", given="\n".join(identities).encode())
    for _ in identities:
        head, _, answer = answer.partition(b"\n")
        if head.endswith(b" missing"):
            yield None
            continue
        size = int(head.split()[2])
        yield answer[:size]
        answer = answer[size + 1 :]


def git(root: Path, *arguments: str, given: bytes = b"") -> bytes:
    command = ["git", f"--git-dir={root}", *arguments]
    environment = {**os.environ, "GIT_NO_LAZY_FETCH": "1"}
    return subprocess.run(
        command, input=given, stdout=subprocess.PIPE, check=True, env=environment
    ).stdout


def before(name: str) -> set[str]:
    """What the sets before one have taken or skipped."""
    earlier = list(SETS)[: list(SETS).index(name)]
    tables = [HERE / each / f"{table}.txt" for each in earlier for table in TABLES[::2]]
    return {line.split()[0] for table in tables for line in table.read_text().splitlines()}


def take(which: str, mirrors: Path, into: Path) -> None:
    labelled = [
        telling_lines(content.decode(errors="replace"))
        for name in LABELLED
        for path, content in (snapshot(mirrors, name) or ("", {}))[1].items()
        if path.endswith(".py")
    ]
    taken: list[str] = []
    chosen: list[str] = []
    skipped: list[str] = []
    seen = before(which)
    for name in (each for each in order() if each not in seen):
        if len(taken) == SETS[which]:
            break
        had = snapshot(mirrors, name)
        reason = COPIES.get(name) or why_skipped(had)
        if had is not None and not reason:
            root = into / name.split("/")[1]
            for path, content in had[1].items():
                (root / path).parent.mkdir(parents=True, exist_ok=True)
                (root / path).write_bytes(content)
            to_label = files(root, labelled)
            if len(to_label) >= LEAST_FILES:
                taken.append(f"{name} {had[0]}")
                chosen += [f"{root.name}/{path}" for path in to_label]
                continue
            shutil.rmtree(root)
            reason = f"fewer than {LEAST_FILES} files to label ({len(to_label)})"
        skipped.append(f"{name}\t{reason}")
    for table, lines in zip(TABLES, (taken, chosen, skipped), strict=True):
        (HERE / which / f"{table}.txt").write_text("".join(f"{line}\n" for line in lines))


def why_skipped(had: tuple[str, dict[str, bytes]] | None) -> str:
    if had is None:
        return "cannot be had"
    python = [
        text.decode(errors="replace") for path, text in had[1].items() if path.endswith(".py")
    ]
    if len(python) > MOST_PYTHON_FILES:
        return f"larger than {MOST_PYTHON_FILES} Python files ({len(python)})"
    if not any(TRAINING_STEP.search(text) for text in python):
        return f"no Python file with a training step ({len(python)} files)"
    return ""


def main(arguments: list[str]) -> None:
    match arguments:
        case ["order"]:
            print(*order(), sep="\n")
        case ["files", root]:
            print(*files(Path(root), []), sep="\n")
        case ["take", which, mirrors, into] if which in SETS:
            take(which, Path(mirrors), Path(into))
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
