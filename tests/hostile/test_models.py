"""A model that comes with a repository: whatever is in it, it is read or refused, and soon."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from amplint.frameworks import model_reading
from amplint.frameworks.model_reading import model_of
from amplint.frameworks.models import Models, fits
from amplint.util import files
from amplint.util.toml import MOST_PARTS, loads
from tests.command import Amplint
from tests.hostile.test_reach import KINDS, SPECIAL
from tests.hostile.test_size import within

SECRET = "hunter2-is-the-password"
NAME = 'name = "ours"\n'


def use(repository: Path, text: str | None = None, name: str = "ours.toml") -> Path:
    """Write a model, and settings that name it."""
    (repository / "pyproject.toml").write_text(f'[tool.amplint]\nmodels = ["{name}"]\n')
    if text is not None:
        (repository / name).write_text(text)
    return repository / name


def refused(amplint: Amplint) -> str:
    """What is said of settings that cannot be followed."""
    with within(5):
        done = amplint("check", "--no-cache")
    assert (done.status, done.out) == (2, "")
    assert "pyproject.toml: `models`" in done.err
    assert "Traceback" not in done.err
    return done.err


# ------------------------------------------------------------------------------- size and depth

TWISTED = {
    "long": ("#" * (model_reading.MOST_CHARACTERS + 1), "more than 200,000 characters"),
    "lists": (f"x = {'[' * 50_000}", "nested too deeply"),
    "tables": (f"x = {'{a=' * 5_000}", "nested too deeply"),
    "key": (f"{'.'.join('a' * 50_000)} = 1", "nested too deeply"),
    "spaced key": (f"{' . '.join('a' * 40_000)} = 1", "nested too deeply"),
    "quoted key": (".".join(['"a.b"'] * 30_000) + " = 1", "nested too deeply"),
    "table of a long key": (f"[{'.'.join('a' * 50_000)}]", "nested too deeply"),
    "number": (f"version = {'9' * 5_000}", "not valid TOML"),
    "patterns": (
        f"{NAME}[[class]]\nnames = {[f'*a{i}*b' for i in range(9_000)]}",
        "more than 200 names have a `*`",
    ),
    "classes": (NAME + "[[class]]\nnames = ['*a*']\n" * 6_000, "more than 200 names have a `*`"),
    "stars": (f"{NAME}[[class]]\nnames = ['{'*a' * 50}']", "a name may have 2 `*`"),
    "name": (f"{NAME}[[class]]\nnames = ['{'a' * 100_000}']", "not a dotted name"),
    "signs": (f"{NAME}signs = {['amp'] * 9_000}", "more than 50 signs"),
    "long sign": (f'{NAME}signs = ["{"a" * 100_000}"]', "a sign is not a text"),
    "empty sign": (f'{NAME}signs = [""]', "a sign is not a text"),
    "sign of quotes": (f"{NAME}signs = [\"''\"]", "a sign is not a text"),
    "settings": (
        NAME + "[[setting]]\nformat='json'\nkey='a'\n" * 3_000,
        "more than 50 settings",
    ),
    "packages": (f"{NAME}packages = {[f'p{i}' for i in range(9_000)]}", "more than 50 packages"),
    "empty": ("", "missing required field `name`"),
    "type": ("name = 3", "Expected `str`"),
    "rows that are none": (f"{NAME}class = 3", "Expected `array`"),
}


@pytest.mark.parametrize("text, why", TWISTED.values(), ids=TWISTED)
def test_what_is_too_large_or_twisted_is_refused_at_once(
    repository: Path, amplint: Amplint, text: str, why: str
) -> None:
    use(repository, text)
    assert why in refused(amplint)


def test_as_many_rows_as_fit_take_no_time() -> None:
    rows = "".join(f'[[class]]\nnames = ["acme.C{i}"]\n' for i in range(5_000))
    patterns = "".join(
        f'[[class]]\nnames = ["*a{i}*b"]\n' for i in range(model_reading.MOST_PATTERNS)
    )
    with within(5):
        models = Models([model_of(NAME + rows + patterns)])
        for i in range(2_000):
            models.classes([f"acme.module.Class{i}"])


def test_no_pattern_blows_up_with_a_long_name() -> None:
    """A regular expression for this pattern takes the square of the name's length."""
    with within(1):
        assert not fits("*a*b", "a" * 1_000_000)
        assert fits("*a*b", "a" * 1_000_000 + "b")


@pytest.mark.parametrize(
    ("pattern", "name", "does"),
    [
        ("*.Hook", "acme.Hook", True),
        ("*.Hook", ".Hook", True),
        ("*.Hook", "Hook", False),
        ("*.Hook", "acme.HookBase", False),
        ("trl.*Trainer", "trl.dpo.DPOTrainer", True),
        ("trl.*Trainer", "trl.Trainer", True),
        ("trl.*Trainer", "atrl.Trainer", False),
        ("ab*ba", "aba", False),
        ("ab*ba", "abba", True),
        ("*a*b", "aab", True),
        ("*ab*b", "ab", False),
        ("a*", "a", True),
        ("**", "", True),
    ],
)
def test_fits(pattern: str, name: str, does: bool) -> None:
    assert fits(pattern, name) is does


def test_too_many_files_are_refused(repository: Path, amplint: Amplint) -> None:
    use(repository, NAME)
    names = ", ".join(['"ours.toml"'] * 21)
    (repository / "pyproject.toml").write_text(f"[tool.amplint]\nmodels = [{names}]\n")
    assert "names more than 20 files" in refused(amplint)


def test_a_key_of_many_parts_in_settings_takes_no_time(repository: Path, amplint: Amplint) -> None:
    """Reading one takes the square of its length, wherever it stands."""
    (repository / "pyproject.toml").write_text(f"[tool.amplint]\n{'.'.join('a' * 50_000)} = 1\n")
    with within(5):
        done = amplint("check", "--no-cache")
    assert done.status == 2
    assert "nested too deeply" in done.err


def test_dots_in_a_document_are_no_keys() -> None:
    dotted = ".".join("a" * (MOST_PARTS + 50))
    assert loads(f'x = "{dotted}"') == {"x": dotted}
    assert loads(f"x = '{dotted}'") == {"x": dotted}
    names = [f"acme.module.Class{i}" for i in range(200)]
    assert loads(f"x = {names}") == {"x": names}
    assert loads(f'x = """\n{"." * 500}\n"""') == {"x": "." * 500 + "\n"}
    assert loads(f"{'.'.join('a' * MOST_PARTS)} = 1")


# ------------------------------------------------------------------------------- what it reads


@pytest.mark.parametrize("make", SPECIAL, ids=KINDS)
def test_what_only_looks_like_a_file_is_refused(
    repository: Path, amplint: Amplint, make: Callable[[Path], None]
) -> None:
    make(use(repository))
    refused(amplint)


@pytest.mark.parametrize("make", SPECIAL, ids=KINDS)
@pytest.mark.usefixtures("repository")
def test_explain_reads_no_pipe_either(amplint: Amplint, make: Callable[[Path], None]) -> None:
    make(Path("ours.toml"))
    done = amplint("explain", "--model", "ours.toml")
    assert (done.status, done.out) == (2, "")
    assert "ours.toml: cannot be read" in done.err


@pytest.mark.parametrize(
    "named", ["../home/key.toml", "{home}/key.toml", "in/key.toml", "key.toml"]
)
def test_no_file_outside_is_read(
    repository: Path, home: Path, amplint: Amplint, named: str
) -> None:
    (home / "key.toml").write_text(f"{NAME}{SECRET}")
    (repository / "in").symlink_to(home, target_is_directory=True)
    (repository / "key.toml").symlink_to(home / "key.toml")
    use(repository, name=named.format(home=home))
    told = refused(amplint)
    assert "does not lie below" in told
    assert SECRET not in told


def test_a_file_that_is_not_there_is_told(repository: Path, amplint: Amplint) -> None:
    use(repository)
    assert "ours.toml: cannot be read: No such file" in refused(amplint)


def test_a_file_that_is_not_utf_8_is_told(repository: Path, amplint: Amplint) -> None:
    use(repository).write_bytes(b'name = "\xff"\n')
    assert "ours.toml: is not UTF-8" in refused(amplint)


def test_a_file_that_is_too_large_is_not_read(
    repository: Path, amplint: Amplint, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(repository, NAME + "#" * 1_000)
    monkeypatch.setattr(files, "MOST_OF_SETTINGS", 500)
    assert "it has more than 500 bytes" in refused(amplint)


SECRETS = {
    "value": f'{NAME}password = "{SECRET}"',
    "text": f"{NAME}{SECRET}",
    "role": f'{NAME}[[class]]\nnames = ["a"]\nattributes = {{ a = "{SECRET}" }}',
    "kind": f'{NAME}[[class]]\nnames = ["a"]\nkind = "{SECRET}"',
    "called": f'{NAME}[[class]]\nnames = ["a"]\nmethod = [{{called = "{SECRET}"}}]',
    "name": f'{NAME}[[class]]\nnames = ["{SECRET}"]',
    "dtype": f'{NAME}[[precision]]\ncalls = ["a"]\nargument = "p"\nvalues = {{ a = "{SECRET}" }}',
    "format": f'{NAME}[[setting]]\nformat = "{SECRET}"\nkey = "a"',
    "key of a setting": f'{NAME}[[setting]]\nformat = "json"\nkey = "{SECRET}"',
    "star": f'{NAME}[[star]]\nmodules = ["a"]\nnames = {{ a = "{SECRET}" }}',
    "wrapper": f'{NAME}[[wrapper]]\ncalls = ["a"]\nargument = "{SECRET}"',
    "sign": f'{NAME}signs = ["{SECRET * 20}"]',
    "title": f'name = "{SECRET}\\n"',
    "key": f'{NAME}"{SECRET} = 1" = 1',
    "not TOML": f"PASSWORD={SECRET}\n",
}


@pytest.mark.parametrize("text", SECRETS.values(), ids=SECRETS)
def test_errors_show_nothing_of_a_file_that_is_no_model(
    repository: Path, amplint: Amplint, text: str
) -> None:
    """A stranger's settings may name any file of the checkout, and a log may be public."""
    use(repository, text)
    assert SECRET not in refused(amplint)


def test_a_page_has_no_control_characters(repository: Path, amplint: Amplint) -> None:
    text = f'{NAME}[[class]]\nnames = ["a"]\nsource = "\\u001b[2J\\u202e"\n'
    use(repository, text)
    done = amplint("explain", "--model", "ours.toml")
    assert done.status == 0
    assert done.out.replace("\n", "").isprintable()


def test_errors_have_no_control_characters(repository: Path, amplint: Amplint) -> None:
    use(repository, f'{NAME}"\\u001b[31m" = 1')
    assert "\x1b" not in refused(amplint)


def test_a_model_is_data_and_runs_nothing(repository: Path, amplint: Amplint) -> None:
    """Names of a model are compared and never imported."""
    (repository / "evil.py").write_text("open('ran', 'w')\nclass Base: ...\n")
    use(repository, f'{NAME}packages = ["evil"]\n[[class]]\nnames = ["evil.Base"]\n')
    amplint("check", "--no-cache")
    assert not os.path.lexists("ran")
