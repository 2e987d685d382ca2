"""`amplint new`: the files of a new rule, which works from the start and waits to be rewritten.

It belongs to amplint, where the command is started in a checkout of it, or else to the package of
rules around the directory; `--package` starts such a package, with its first rule.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from keyword import iskeyword
from pathlib import Path

from amplint import __version__
from amplint.findings.selectors import CODE, FAMILIES, NAME, OWN, RESERVED, letters_of
from amplint.findings.witness import NOT_WRITTEN
from amplint.rule.packages import GROUP
from amplint.rule.rule import Rule
from amplint.util.toml import loads

PACKAGE = re.compile(r"[a-z][a-z0-9]*([-_][a-z0-9]+)*")

RULE = '''"""A call of `torch.{word}`. (One line: the pattern that the rule finds.)

What happens at run time, and why that hurts. Say what a run shows, not what the
documentation warns of.

Fix safety: there is no fix. (Or: safe when ..., because ...; unsafe when ...)

Known limits: what the rule does not see, and why it stays silent there.
"""

from __future__ import annotations

from collections.abc import Iterator

from amplint import {imports}

rule = Rule(
    code="{code}",
    doc=__doc__,
    group=Group.PEDANTIC,  # how strong the claim is
    since="{version}",
    help="say what to write instead",  # shown where a finding has no fix
{witness})


# The condition decides which operations are judged: calls of what may have this name.
@rule.on(calls("torch.{word}"))
def check(call: View) -> Iterator[Finding]:
    # Guards first, each a reason to stay silent; then one `yield`.
    if call.callee != "torch.{word}":  # on some path it may be something else
        return
    yield call.finding(f"`{{call.called.text}}` is called")
'''

BAD = '''"""What {code} finds; each reported line ends with the marker."""

import torch


def step(x):
    return torch.{word}(x)  # expect: {code}
'''

GOOD = '''"""Near misses of {code}: each looks like the pattern and is right, for a reason."""

import math


def step(x):
    # Not torch's: the name alone decides nothing.
    return math.{word}(x)
'''


WITNESS = f"""\
    # What running bad.py and the fixed program must show: Raises("same dtype"), Warns("is old"),
    # Dtype("float32", "float16"), Differs(0.01), Same(), Syncs(3, 0); or, where no machine of the
    # tests can run the claim, Unrun("it needs two GPUs", "https://...").
    witness=Unrun("{NOT_WRITTEN}", "amplint new"),
    preview=True,  # until its findings on real code have been read
"""

REPORT = """\
bad.py:7:12: {code} {name} (pedantic)
  `torch.{word}` is called
  | return torch.{word}(x)  # expect: {code}
"""

PYPROJECT = """\
[build-system]
requires = ["setuptools>=77"]
build-backend = "setuptools.build_meta"

[project]
name = "{package}"
version = "0.1.0"
description = "Rules for amplint"
requires-python = ">=3.10"
dependencies = ["amplint>={version}"]

[project.optional-dependencies]
test = ["pytest>=8"]

# Where this package is installed beside amplint, its rules are used: all modules of
# `{module}` but those whose names begin with an underscore.
[project.entry-points."amplint.rules"]
{module} = "{module}"

[tool.amplint]
roots = ["tests/fixtures/*"]

[tool.pytest.ini_options]
testpaths = ["tests"]
pythonpath = ["src"]
"""

CONFTEST = """\
import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update", action="store_true", help="write tests/fixtures/*/report.txt anew"
    )
"""

TEST = '''\
"""Each rule finds what its folder in fixtures/ says, and nothing else."""

from pathlib import Path

import pytest
from amplint import testing

PROOFS = testing.proofs("{module}", Path(__file__).parent / "fixtures")


@pytest.mark.parametrize("proof", PROOFS, ids=str)
def test_rules(proof: testing.Proof, pytestconfig: pytest.Config) -> None:
    proof(update=pytestconfig.getoption("--update"))
'''


class ScaffoldError(Exception):
    """The rule, or the package, cannot be started; the text says why."""


@dataclass(frozen=True)
class Home:
    """The place of a new rule.

    Args:
        rules: the directory of its module.
        fixtures: the directory of its fixture.
        package: the package that it belongs to; "" for amplint.
    """

    rules: Path
    fixtures: Path
    package: str


def create(directory: Path, code: str, name: str, rules: Sequence[Rule]) -> list[Path]:
    """Write the files of a new rule and give back their paths.

    Args:
        directory: where the command was started, in a checkout of amplint or of a package of rules.
        code: the rule's code, not in use yet.
        name: the pattern, as in "allow NAME".
        rules: the rules that exist.
    """
    name = checked(code, name, rules)
    return written(rule_files(home_of(directory, code), code, name))


def create_package(
    directory: Path, package: str, code: str, name: str, rules: Sequence[Rule]
) -> list[Path]:
    """Write the files of a package with one rule, to a directory with its name.

    Args:
        directory: where the command was started.
        package: the name of the distribution.
        code: of the rule.
        name: of the rule.
        rules: the rules that exist.
    """
    module = package.replace("-", "_")
    if not PACKAGE.fullmatch(package) or iskeyword(module) or module == "amplint":
        raise ScaffoldError(f"{package} is not a name for a package, like acme-rules")
    if not CODE.fullmatch(code) or letters_of(code) in RESERVED:
        raise ScaffoldError(
            f"{code} is not a code for a rule of a package: give one of two to five capital "
            f"letters, not {OWN}, with three digits, as in ABC101"
        )
    name = checked(code, name, rules)
    root = directory / package
    if root.exists():
        raise ScaffoldError(f"{root} exists already")
    home = Home(root / "src" / module, root / "tests" / "fixtures", package)
    values = {"package": package, "module": module, "version": __version__}
    fixture = home.fixtures / name.replace("-", "_")
    return written(
        {
            root / "pyproject.toml": PYPROJECT.format_map(values),
            home.rules / "__init__.py": f'"""The rules of {package}."""\n',
            **rule_files(home, code, name),
            fixture / "report.txt": REPORT.format_map(values_of(code, name)),
            root / "tests" / "conftest.py": CONFTEST,
            root / "tests" / "test_rules.py": TEST.format_map(values),
        }
    )


def checked(code: str, name: str, rules: Sequence[Rule]) -> str:
    """The name as it is written. Raises ScaffoldError where the code or the name cannot be used."""
    name = name.replace("_", "-")
    if not CODE.fullmatch(code):
        raise ScaffoldError(f"{code} is not a code like AMP101")
    if letters_of(code) == OWN and code[len(OWN)] not in FAMILIES:
        raise ScaffoldError(f"{code} belongs to no family: codes begin with AMP1 to AMP9")
    if not NAME.fullmatch(name):
        raise ScaffoldError(f"{name} is not a name like host-read-in-hot-path")
    for rule in rules:
        if code == rule.code or name == rule.name:
            raise ScaffoldError(f"{rule.code} {rule.name} exists already")
    return name


def values_of(code: str, name: str) -> dict[str, str]:
    return {"code": code, "name": name, "word": name.replace("-", "_")}


def rule_files(home: Home, code: str, name: str) -> dict[Path, str]:
    """The files of a rule, without its report."""
    values = {
        **values_of(code, name),
        "version": "0.1.0" if home.package else __version__,
        "imports": "Finding, Group, Rule, View, calls"
        if home.package
        else "Finding, Group, Rule, Unrun, View, calls",
        "witness": "" if home.package else WITNESS,
    }
    folder = home.fixtures / values["word"]
    return {
        home.rules / f"{values['word']}.py": RULE.format_map(values),
        folder / "bad.py": BAD.format_map(values),
        folder / "good.py": GOOD.format_map(values),
    }


def written(files: Mapping[Path, str]) -> list[Path]:
    """Write files, of which none exists, and give back their paths."""
    for file in files:
        if file.exists():
            raise ScaffoldError(f"{file} exists already")
    for file, text in files.items():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    return list(files)


def home_of(directory: Path, code: str) -> Home:
    """The place of a rule with this code, in the checkout around a directory."""
    is_own = letters_of(code) == OWN
    for up in (directory, *directory.parents):
        if (
            is_own
            and (up / "rules" / "__init__.py").is_file()
            and (up / "amplint" / "rule" / "rule.py").is_file()
        ):
            return Home(up / "rules" / FAMILIES[code[len(OWN)]], up / "fixtures", "")
        if not is_own and (module := module_in(up / "pyproject.toml")):
            for base in (up / "src", up):
                rules = base.joinpath(*module.split("."))
                if rules.is_dir():
                    return Home(rules, up / "tests" / "fixtures", module)
    if is_own:
        raise ScaffoldError(f"{directory} is not in a checkout of amplint")
    raise ScaffoldError(
        f"{directory} is not in a package of rules; `amplint new --package NAME` starts one"
    )


def module_in(file: Path) -> str | None:
    """The package of modules that a pyproject.toml declares as rules."""
    try:
        document = loads(file.read_text(encoding="utf-8"))
        declared = document["project"]["entry-points"][GROUP]
        return next((str(value) for value in declared.values()), None)
    except (OSError, ValueError, LookupError, TypeError, AttributeError):  # it is another one
        return None
