"""What is reported are the paths named; what is analysed is the project around them."""

import os
import subprocess
from pathlib import Path

import pytest

from amplint.project import discover
from amplint.project.config import Settings
from amplint.project.discover import Selection


@pytest.fixture(autouse=True)
def in_a_temporary_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home-of-nobody"))


def tree(root: Path, *files: str) -> None:
    """Make files; `name=text` gives one a text."""
    for file in files:
        name, _, text = file.partition("=")
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)


def project(
    *paths: str,
    exclude: tuple[str, ...] = (),
    roots: tuple[str, ...] | None = None,
    force: bool = False,
) -> Selection:
    settings = Settings(root=Path.cwd(), exclude=exclude, roots=roots)
    return discover.select(paths, settings, force)


def reported(*paths: str, exclude: tuple[str, ...] = (), force: bool = False) -> list[str]:
    return sorted(project(*paths, exclude=exclude, force=force).reported)


# ------------------------------------------------------------------------------ root and scope


def test_the_project_around_a_named_file_is_analysed(tmp_path: Path) -> None:
    tree(tmp_path, "pyproject.toml", "src/train.py", "src/helpers.py", "tests/test_it.py")
    found = project("src/helpers.py")
    assert found.root == tmp_path
    assert found.files == ("src/helpers.py", "src/train.py", "tests/test_it.py")
    assert found.reported == {"src/helpers.py"}
    assert found.whole


def test_the_nearest_pyproject_or_git_above_all_paths_is_the_root(tmp_path: Path) -> None:
    tree(tmp_path, ".git/HEAD", "a/pyproject.toml", "a/x.py", "a/deep/y.py", "b/z.py")
    assert project("a/deep/y.py").root == tmp_path / "a"
    assert project("a/x.py", "b/z.py").root == tmp_path
    assert project("a/x.py", "b/z.py").files == ("a/deep/y.py", "a/x.py", "b/z.py")


def test_a_worktree_has_a_file_named_git(tmp_path: Path) -> None:
    tree(tmp_path, ".git=gitdir: elsewhere", "x.py", "sub/y.py")
    assert project("sub/y.py").files == ("sub/y.py", "x.py")


def test_without_a_root_only_the_paths_are_analysed(tmp_path: Path) -> None:
    tree(tmp_path, "one/a.py", "one/b.py", "two/c.py")
    assert project("one").files == ("a.py", "b.py")
    assert project("one").whole
    alone = project("one/a.py")
    assert alone.files == ("a.py",)
    assert not alone.whole, "what belongs to a single file without a project cannot be known"


def test_a_home_directory_under_version_control_is_no_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    tree(tmp_path, ".git/HEAD", "work/a.py", "private/b.py")
    assert project("work/a.py").files == ("a.py",)
    tree(tmp_path, "pyproject.toml")
    assert project("work/a.py").files == ("private/b.py", "work/a.py")


def test_paths_are_found_from_below_the_root(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree(tmp_path, "pyproject.toml", "src/a.py", "b.py")
    monkeypatch.chdir(tmp_path / "src")
    assert reported(".") == ["src/a.py"]
    assert reported("../b.py") == ["b.py"]


def test_of_the_roots_in_the_settings_those_of_the_named_paths_are_analysed(
    tmp_path: Path,
) -> None:
    tree(tmp_path, "pyproject.toml", "a.py", "libs/one/b.py", "libs/one/c.py", "libs/two/d.py")
    roots = ("libs/*",)
    found = project("libs/one/b.py", roots=roots)
    assert (found.root, found.whole) == (tmp_path, True)
    assert found.files == ("libs/one/b.py", "libs/one/c.py")
    assert project("a.py", "libs/two", roots=roots).files == ("a.py", "libs/two/d.py")
    assert project(".", roots=roots).files == project(".").files


# ------------------------------------------------------------------------------ what is left out


def test_a_walk_takes_py_and_pyw(tmp_path: Path) -> None:
    tree(tmp_path, "a.py", "b.pyw", "c.pyi", "d.txt", "script", "e.PY")
    assert reported(".") == ["a.py", "b.pyw"]


def test_a_named_file_is_read_whatever_it_is_called(tmp_path: Path) -> None:
    tree(tmp_path, "script", "stub.pyi")
    assert reported("script", "stub.pyi") == ["script", "stub.pyi"]


def test_directories_of_tools_builds_and_environments_are_not_entered(tmp_path: Path) -> None:
    tree(
        tmp_path, "a.py", ".venv/b.py", "build/c.py", "node_modules/d.py", "lib/site-packages/e.py"
    )
    tree(tmp_path, "my-env/pyvenv.cfg", "my-env/lib/f.py", ".github/scripts/g.py")
    assert reported(".") == [".github/scripts/g.py", "a.py"]


def test_a_directory_that_is_named_is_entered(tmp_path: Path) -> None:
    tree(tmp_path, "pyproject.toml", "venv/lib/site-packages/torchlib/a.py", "x.py")
    tree(tmp_path, "venv/lib/site-packages/torchlib/build/b.py")
    assert reported("venv/lib/site-packages/torchlib") == ["venv/lib/site-packages/torchlib/a.py"]
    assert reported("venv") == [], "site-packages below it was not named"


def test_gitignore(tmp_path: Path) -> None:
    tree(tmp_path, "pyproject.toml", ".gitignore=/data/\n*_gen.py\n!keep_gen.py\n")
    tree(tmp_path, "a.py", "x_gen.py", "keep_gen.py", "data/b.py", "src/data/c.py")
    assert reported(".") == ["a.py", "keep_gen.py", "src/data/c.py"]


def test_a_nested_gitignore_speaks_last(tmp_path: Path) -> None:
    tree(tmp_path, ".git/HEAD", ".git/info/exclude=private.py\n", ".gitignore=*_gen.py\n")
    tree(tmp_path, "sub/.gitignore=!b_gen.py\n/c.py\n", "sub/b_gen.py", "sub/c.py", "sub/d/c.py")
    tree(tmp_path, "a_gen.py", "private.py")
    assert reported(".") == ["sub/b_gen.py", "sub/d/c.py"]


def test_gitignore_above_the_root_counts_up_to_the_repository(tmp_path: Path) -> None:
    tree(tmp_path, ".gitignore=a.py\n", "repo/.git/HEAD", "repo/.gitignore=b.py\n")
    tree(tmp_path, "repo/pkg/pyproject.toml", "repo/pkg/a.py", "repo/pkg/b.py", "repo/pkg/c.py")
    assert reported("repo/pkg") == ["a.py", "c.py"]


def test_an_ignored_directory_that_is_named_is_read(tmp_path: Path) -> None:
    tree(
        tmp_path,
        "pyproject.toml",
        ".gitignore=out/\n*.tmp.py\n",
        "out/a.py",
        "out/b.tmp.py",
        "c.py",
    )
    assert reported("out") == ["out/a.py"]
    assert reported(".") == ["c.py"]


def test_git_agrees_about_what_is_ignored(tmp_path: Path) -> None:
    tree(tmp_path, ".gitignore=/a.py\nlogs/\n*_gen.py\n!src/*_gen.py\ndoc/**/x.py\n\\#odd.py\n")
    tree(tmp_path, "src/.gitignore=deep/*\n!deep/kept.py\n# comment\n")
    tree(tmp_path, "a.py", "src/a.py", "logs/b.py", "src/logs/b.py", "src/c_gen.py", "c_gen.py")
    tree(tmp_path, "doc/x.py", "doc/1/2/x.py", "#odd.py", "src/deep/kept.py", "src/deep/lost.py")
    subprocess.run(["git", "init", "-q"], check=True)
    listing = ["git", "ls-files", "--others", "--exclude-standard", "*.py"]
    git = subprocess.run(listing, check=True, capture_output=True, text=True).stdout
    assert reported(".") == sorted(git.split())


def test_lines_that_git_passes_over_spoil_no_others(tmp_path: Path) -> None:
    tree(tmp_path, ".gitignore=!\n\\\n\n# only\nb\\\n[z-a]\n[b\na.py\n", "a.py", "b.py")
    assert reported(".") == ["b.py"]


def test_exclude(tmp_path: Path) -> None:
    tree(tmp_path, "pyproject.toml", "a.py", "vendor/b.py", "pkg/c_pb2.py", "pkg/d.py")
    exclude = ("vendor/", "*_pb2.py")
    found = project(".", exclude=exclude)
    assert found.files == ("a.py", "pkg/d.py")
    assert reported("pkg", exclude=exclude) == ["pkg/d.py"]


def test_a_named_file_is_read_even_if_left_out_but_not_by_force(tmp_path: Path) -> None:
    tree(
        tmp_path, "pyproject.toml", ".gitignore=b.py\n", "vendor/a.py", "b.py", "build/c.py", "d.py"
    )
    files = ("vendor/a.py", "b.py", "build/c.py", "d.py")
    assert reported(*files, exclude=("vendor/",)) == sorted(files)
    assert reported(*files, exclude=("vendor/",), force=True) == ["d.py"]


# ------------------------------------------------------------------------------ links


def test_a_loop_of_links_ends(tmp_path: Path) -> None:
    tree(tmp_path, "pkg/a.py")
    (tmp_path / "pkg" / "again").symlink_to(tmp_path / "pkg", target_is_directory=True)
    (tmp_path / "pkg" / "self.py").symlink_to(tmp_path / "pkg" / "self.py")
    assert reported(".") == ["pkg/a.py"]


def test_a_link_that_is_named_is_followed(tmp_path: Path) -> None:
    tree(tmp_path, "real/a.py")
    (tmp_path / "link").symlink_to(tmp_path / "real", target_is_directory=True)
    assert reported("link") == ["a.py"]
    assert project("link").root == tmp_path / "link"


def test_a_file_is_reported_once_under_its_own_name(tmp_path: Path) -> None:
    tree(tmp_path, "pkg/a.py", "outside/b.py")
    (tmp_path / "pkg" / "alias.py").symlink_to(tmp_path / "pkg" / "a.py")
    assert reported("pkg") == ["a.py"]


def test_a_walk_follows_no_link_out_of_the_project_and_says_so(tmp_path: Path) -> None:
    tree(tmp_path, "pkg/a.py", "pkg/inner/b.py", "outside/c.py")
    (tmp_path / "pkg" / "far.py").symlink_to(tmp_path / "outside" / "c.py")
    (tmp_path / "pkg" / "near").mkdir()
    (tmp_path / "pkg" / "near" / "own.py").symlink_to(tmp_path / "pkg" / "far.py")
    assert reported("pkg") == ["a.py", "inner/b.py"]
    (notice,) = project("pkg").notices
    assert notice.startswith("links that lead out of the project were not followed (2)")
    assert notice.endswith("name it: pkg/far.py")
    assert reported("pkg/far.py") == ["far.py"]


# ------------------------------------------------------------------------------ what goes wrong


def test_a_missing_path_is_a_problem_and_the_rest_goes_on(tmp_path: Path) -> None:
    tree(tmp_path, "a.py")
    found = project("a.py", "gone.py", "no/dir")
    assert found.reported == {"a.py"}
    assert found.problems == (
        "gone.py: there is no such file or directory",
        "no/dir: there is no such file or directory",
    )


def test_a_link_to_nowhere_is_a_missing_path(tmp_path: Path) -> None:
    (tmp_path / "a.py").symlink_to(tmp_path / "gone.py")
    assert project("a.py").problems == ("a.py: there is no such file or directory",)


def test_notebooks_are_files_of_the_project(tmp_path: Path) -> None:
    tree(tmp_path, "pyproject.toml", "a.ipynb", "sub/b.ipynb", "sub/.ipynb_checkpoints/b.ipynb")
    assert project(".").reported == {"a.ipynb", "sub/b.ipynb"}
    assert project("a.ipynb").reported == {"a.ipynb"}
    assert project("a.ipynb").files == ("a.ipynb", "sub/b.ipynb")
    assert project(".", exclude=("sub",)).reported == {"a.ipynb"}


def test_a_directory_without_python_is_told(tmp_path: Path) -> None:
    tree(tmp_path, "a.txt")
    assert project(".").notices == ("no Python files were found, so there is nothing to check",)


def test_a_directory_that_cannot_be_read_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree(tmp_path, "pyproject.toml", "a.py", "locked/b.py", "other/c.py")
    scandir = os.scandir

    def refuse(path: str) -> object:  # root may read everything, so permissions would not do
        if path.endswith("locked"):
            raise PermissionError(13, "Permission denied", path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refuse)
    found = project(".")
    assert found.reported == {"a.py", "other/c.py"}
    assert found.problems == ("locked: the directory cannot be read",)
    assert not project("other").problems, "it lies outside of what was asked for"
    assert not project("other").whole


# ------------------------------------------------------------------------------ standard input


def test_a_text_may_stand_for_a_file_that_is_not_there(tmp_path: Path) -> None:
    tree(tmp_path, "pyproject.toml", "src/a.py")
    settings = Settings(root=tmp_path)
    found = discover.select(["src/new.py"], settings, text_is_given=True)
    assert found.files == ("src/a.py", "src/new.py")
    assert found.reported == {"src/new.py"}


def test_a_text_without_a_name_is_a_project_of_its_own() -> None:
    found = discover.lone_text("-")
    assert (found.files, found.reported, found.whole) == (("-",), {"-"}, False)
