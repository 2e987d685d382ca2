"""The worth of each part of amplint on real code.

    python -m benchmarks.worth lines DIRECTORY... --output FILE
    python -m benchmarks.worth active DIRECTORY... --output FILE
    python -m benchmarks.worth weigh --active FILE [--parts] [--labels JSONL]... --output FILE
    python -m benchmarks.worth page LABELLED PROGRAMS --output FILE

`lines` runs `amplint check` with all rules over each directory, and `amplint fix` without writing,
under coverage, and writes by module the functions and lines that nothing has run.

`active` runs the check alone, and writes by function of the engine and of the rules in which of the
directories it has ever returned something: neither nothing, nor false, nor an unknown value.

`weigh` takes the functions that are active in few directories, the special cases: what is active
everywhere is no special case. With `--parts` it takes each module of the engine, each analysis
beside a rule and each model of a framework instead. Each is made to say nothing, and the
directories in which it is active are checked again: written are the findings that go and that come,
and of which a label says that they are right or wrong. It goes on where an earlier run was ended;
several may write to one file.

`page` writes worth.md of what `weigh --parts` has found: first over labelled projects, then over
programs, whose findings have no labels.

Code under analysis is read, and never run.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import importlib
import inspect
import io
import json
import os
import pkgutil
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import CodeType, FrameType, FunctionType
from typing import Any

from benchmarks.size import lines_of_code

ROOT = Path(__file__).resolve().parents[1]
ROOMS = ("amplint", "rules")
# Rooms of the engine whose functions say something of code; `rules` is their home as they run.
WEIGHED = ("amplint.analyses", "amplint.gradscaler", "amplint.inference", "amplint.rules")
COMMANDS = (("check", "--no-cache", "--format", "json"), ("fix", "--no-cache", "--unsafe"))
COMMON = ("--select", "ALL", "--preview", "--jobs", "1")
MODEL = "frameworks/"  # begins the name of a model
MOST = 3  # directories in which a special case is active


# ------------------------------------------------------------------------------------- lines


def measured(directories: Sequence[Path]) -> dict[str, object]:
    """By module, what no command has run over these directories."""
    import coverage  # noqa: PLC0415, the processes that are weighed need none

    with tempfile.TemporaryDirectory() as scratch:
        data, settings = Path(scratch) / "data", Path(scratch) / "settings"
        sources = ",".join(str(ROOT / room) for room in ROOMS)
        settings.write_text(
            f"[run]\nparallel = true\npatch = _exit\ndata_file = {data}\nsource = {sources}\n"
        )
        for directory in directories:
            for command in COMMANDS:
                program = [sys.executable, "-m", "coverage", "run", f"--rcfile={settings}"]
                subprocess.run(
                    [*program, "-m", "amplint", *command, *COMMON, str(directory)],
                    cwd=directory,
                    env={**os.environ, "PYTHONPATH": str(ROOT)},
                    stdout=subprocess.DEVNULL,
                    check=False,
                )
        found = coverage.Coverage(data_file=str(data), config_file=str(settings))
        found.combine([scratch])
        files = sorted(path for room in ROOMS for path in (ROOT / room).rglob("*.py"))
        return {
            path.relative_to(ROOT).as_posix(): unused(path, set(found.analysis2(str(path))[3]))
            for path in files
        }


def definitions(tree: ast.Module) -> Iterator[tuple[str, ast.FunctionDef]]:
    """The functions and methods of a module, by their names."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            yield node.name, node
        elif isinstance(node, ast.ClassDef):
            for inner in node.body:
                if isinstance(inner, ast.FunctionDef):
                    yield f"{node.name}.{inner.name}", inner


def unused(path: Path, missing: set[int]) -> dict[str, object]:
    """The parts of a module that nothing has run, of which some rows are missing."""
    text, rows, idle = path.read_text(encoding="utf-8"), set(missing), {}
    for name, node in definitions(ast.parse(text)):
        own = {each.lineno for each in ast.walk(node) if isinstance(each, ast.stmt)} - {node.lineno}
        if own and own <= rows:
            span = range(node.lineno, (node.end_lineno or node.lineno) + 1)
            idle[name] = len(span)
            rows -= {*span}
    return {"lines": lines_of_code(text), "functions": idle, "others": sorted(rows)}


# -------------------------------------------------------------------------------------- active


def checked(directory: Path) -> list[list[object]]:
    """The findings in a directory, by this process."""
    from amplint.cli.main import main  # noqa: PLC0415, what is patched comes first

    output, before = io.StringIO(), Path.cwd()
    os.chdir(directory)
    try:
        with contextlib.redirect_stdout(output), contextlib.redirect_stderr(io.StringIO()):
            main([*COMMANDS[0], *COMMON, "."])
    finally:
        os.chdir(before)
    return sorted(
        [each["filename"], each["location"]["row"], each["code"], each["message"]]
        for each in json.loads(output.getvalue() or "[]")
    )


def functions() -> dict[str, FunctionType]:
    """The functions and methods of the rooms that are weighed, by module and name."""
    found = {}
    for room in WEIGHED:
        package = importlib.import_module(room)
        for module in pkgutil.walk_packages(package.__path__, f"{room}."):
            held = vars(importlib.import_module(module.name))
            classes = [each for each in held.values() if inspect.isclass(each)]
            for each in (*held.values(), *(m for cls in classes for m in vars(cls).values())):
                function = getattr(each, "fget", getattr(each, "func", each))
                function = getattr(function, "__wrapped__", function)
                if isinstance(function, FunctionType) and function.__module__ == module.name:
                    found[f"{function.__module__}:{function.__qualname__}"] = function
    return found


def active(directory: Path) -> tuple[list[list[object]], list[str]]:
    """The findings in a directory, and the functions that have returned something for them."""
    from amplint.values.atoms import UNKNOWN  # noqa: PLC0415

    waiting = {function.__code__: name for name, function in functions().items()}
    seen: list[str] = []

    def profile(frame: FrameType, event: str, result: Any) -> None:
        name = waiting.get(frame.f_code) if event == "return" else None
        if name is not None and result is not None and result is not False:
            with contextlib.suppress(Exception):  # what has no truth is something
                if not result or result == UNKNOWN:
                    return
            seen.append(name)
            del waiting[frame.f_code]

    threading.setprofile(profile)
    sys.setprofile(profile)
    try:
        found = checked(directory)
    finally:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]  # as in `sys.setprofile`
    return found, seen


# --------------------------------------------------------------------------------------- weigh

# What says nothing, by how a function's result is annotated; the first that fits.
NOTHING: Mapping[str, Callable[..., object]] = {
    "| None": lambda *_, **__: None,
    "None": lambda *_, **__: None,
    "bool": lambda *_, **__: False,
    "Iterator": lambda *_, **__: iter(()),
    "frozenset": lambda *_, **__: frozenset(),
    "Set": lambda *_, **__: frozenset(),
    "Collection": lambda *_, **__: (),
    "Sequence": lambda *_, **__: (),
    "tuple": lambda *_, **__: (),
    "list": lambda *_, **__: [],
    "dict": lambda *_, **__: {},
    "Mapping": lambda *_, **__: {},
    "Value": lambda *_, **__: __import__("amplint.values.atoms", fromlist=["a"]).UNKNOWN,
}


def nothing(function: FunctionType) -> CodeType | None:
    """The code that says nothing in its place; None where there is no such thing."""
    result = str(function.__annotations__.get("return", ""))
    is_generator = inspect.isgeneratorfunction(function)
    for word, silent in NOTHING.items():
        fits = result.endswith(word) if word.startswith("|") else result.startswith(word)
        if fits and not function.__code__.co_freevars and not (is_generator and word != "Iterator"):
            return silent.__code__
    return None


def silence(name: str) -> None:
    """Make a function, all functions of a module or the model of a framework say nothing."""
    if name.startswith(MODEL):
        from amplint.frameworks import models  # noqa: PLC0415

        left = tuple(each for each in models.bundled() if each.name != name.removeprefix(MODEL))
        vars(models)["bundled"] = lambda: left
    for key, function in functions().items():
        code = nothing(function) if name in (key, key.partition(":")[0]) else None
        if code is not None:
            function.__code__ = code


def parts(where: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """By module of the engine, analysis beside a rule and model of a framework: the directories in
    which it speaks."""
    from amplint.frameworks.models import bundled  # noqa: PLC0415

    found: dict[str, set[str]] = {}
    for name, held in where.items():
        module = name.partition(":")[0]
        if not module.startswith(WEIGHED[-1]) or module.rpartition(".")[2].startswith("_"):
            found.setdefault(module, set()).update(held)
    everywhere = {each for held in where.values() for each in held}
    texts = {each: text_of(Path(each)) for each in everywhere}
    for model in bundled():
        words = model.packages or (model.name,)
        found[MODEL + model.name] = {
            each for each, text in texts.items() if any(word in text for word in words)
        }
    return {name: sorted(held) for name, held in found.items() if held}


def text_of(directory: Path) -> str:
    return "\n".join(
        path.read_text(encoding="utf-8", errors="replace") for path in directory.rglob("*.py")
    )


def in_process(what: str, *arguments: str) -> Any:
    """The answer of a process of its own; None where it fails."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.worth", f"_{what}", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    return json.loads(done.stdout) if done.returncode == 0 else None


def weigh(
    known: Mapping[str, Any], whole: bool, labels: Mapping[tuple[str, int], str], output: Path
) -> None:
    """Silence one part, or one special case, after the other, and write what becomes of the
    findings.

    Args:
        whole: whether parts are taken.
    """
    places = known["directories"]
    where: dict[str, list[str]] = {}
    for directory, each in places.items():
        for name in each["active"]:
            where.setdefault(name, []).append(directory)
    able = {name for name, function in functions().items() if nothing(function) is not None}
    special = {name: held for name, held in where.items() if name in able and len(held) <= MOST}
    taken = parts(where) if whole else special
    for name in sorted(taken, key=lambda each: (len(taken[each]), each)):
        if name in read(output):
            continue
        write(output, name, None)  # taken by this process
        gone: list[list[object]] = []
        come: list[list[object]] = []
        answers = in_process("silenced", name, *taken[name])
        for directory, now in zip(taken[name], answers or (), strict=False):
            before = places[directory]["findings"]
            for some, others, found in ((before, now, gone), (now, before, come)):
                left = [each for each in some if each not in others]
                found.extend([Path(directory).name, *each, label_of(each, labels)] for each in left)
        failed = answers is None
        result = {"directories": len(taken[name]), "gone": gone, "come": come, "fails": failed}
        write(output, name, result)
        print(name, len(gone), len(come), "fails" * failed, flush=True)


def read(path: Path) -> dict[str, Any]:
    return dict(json.loads(path.read_text())) if path.exists() else {}


def write(path: Path, name: str, result: object) -> None:
    path.write_text(json.dumps(read(path) | {name: result}, indent=1) + "\n")


def label_of(finding: Sequence[Any], labels: Mapping[tuple[str, int], str]) -> str:
    """The word of a label at its row; "" without one."""
    path, row = finding[:2]
    return next((labels[path, at] for at in (row, row - 1, row + 1) if (path, at) in labels), "")


# ---------------------------------------------------------------------------------------- page

HEAD = """\
# What each part of the engine is for

Each module of the engine, each analysis beside a rule and each model of a framework was made to say
nothing, one at a time (`python -m benchmarks.worth weigh --parts`).

- Right lost: findings that go on lines with a right label, in up to {labelled} labelled projects.
- False: findings that come there on lines whose labels are all wrong.
- Others: all other findings that go or come there; most of their lines have no label.
- Programs: findings that go or come in at most {programs} small programs of one mistake each.

A part that changes nothing has fixtures alone for it: look at it first where something has to go.
Where all findings go, nothing runs without the part. Rows of the first three counts are of the
commit before the parts in rules/ moved there (c337ef34), the programs of the one after.

| part | right lost | false | others | programs | for example |
|---|---|---|---|---|---|
"""


def row_of(name: str, labelled: Mapping[str, Any], programs: Mapping[str, Any]) -> str:
    """The row of a part in the page."""
    gone, come = labelled.get("gone", []), labelled.get("come", [])
    lost = [each for each in gone if each[-1] == "positive"]
    false = [each for each in come if each[-1] == "negative"]
    others = len(gone) + len(come) - len(lost) - len(false)
    changed = [*programs.get("gone", []), *programs.get("come", [])]
    counts = [len(lost), len(false), others, len(changed)]
    example = next(iter([*lost, *false, *changed, *gone, *come]), None)
    shown = "" if example is None else f"{example[3]} {example[0]} {example[1]}:{example[2]}"
    return "| " + " | ".join([f"`{name}`", *map(str, counts), shown]) + " |"


def page(labelled: Mapping[str, Any], programs: Mapping[str, Any]) -> str:
    """The page of what parts are for, by their names."""
    rows = [
        row_of(
            name.removeprefix("amplint.").replace(".", "/"),
            labelled.get(name) or {},
            programs.get(name) or {},
        )
        for name in sorted({*labelled, *programs})
    ]
    most = [max(each["directories"] for each in found.values()) for found in (labelled, programs)]
    head = HEAD.format(labelled=most[0], programs=most[1])
    return head + "\n".join(rows) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what")
    parser.add_argument("arguments", nargs="*")
    parser.add_argument("--active", type=Path)
    parser.add_argument("--parts", action="store_true")
    parser.add_argument("--labels", type=Path, action="append", default=[])
    parser.add_argument("--output", type=Path)
    given = parser.parse_args()
    directories = [str(Path(each).resolve()) for each in given.arguments]
    if given.what == "_active":
        print(json.dumps(active(Path(given.arguments[0]))))
    elif given.what == "_silenced":
        silence(given.arguments[0])
        print(json.dumps([checked(Path(each)) for each in given.arguments[1:]]))
    elif given.what == "page":
        given.output.write_text(page(*(read(Path(each)) for each in given.arguments)))
    elif given.what == "lines":
        text = json.dumps(measured([Path(each) for each in directories]), indent=1)
        given.output.write_text(text + "\n")
    elif given.what == "active":
        found: dict[str, object] = {}
        spoken: list[str] = []
        for directory in directories:
            findings, names = in_process("active", directory) or ([], [])
            found[directory] = {"findings": findings, "active": names}
            spoken += names
            print(Path(directory).name, len(findings), len(names), flush=True)
        counted = Counter(spoken)
        idle = sorted(functions().keys() - counted.keys())
        given.output.write_text(json.dumps({"idle": idle, "directories": found}) + "\n")
    else:
        rows = [json.loads(row) for file in given.labels for row in file.open(encoding="utf-8")]
        # A line may have labels of several categories: a right finding of one is right.
        rows.sort(key=lambda row: row["label"] == "positive")
        labels = {(row["path"], row["line"]): row["label"] for row in rows}
        weigh(json.loads(given.active.read_text()), given.parts, labels, given.output)


if __name__ == "__main__":
    main()
