"""The GitHub action: its scripts, run as the runner runs them, on checkouts as actions/checkout
makes them, such as the merge of a pull request, cloned without its history.
"""

from __future__ import annotations

import http.server
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import threading
import venv
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.helpers import ROOT

INSTALL = ROOT / ".github" / "action" / "install.py"
ACTION = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
STEPS = {step.get("id"): step for step in ACTION["runs"]["steps"]}
BASH = ("bash", "--noprofile", "--norc", "-eo", "pipefail", "-c")  # as the runner starts it
OLD = "import torch\nscaler = torch.cuda.amp.GradScaler()\n"
NEW = "region = torch.cuda.amp.autocast()\n"
HEAD = "refs/heads/topic"
MERGE = "refs/pull/7/merge"


def git(directory: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=nobody", "-c", "user.email=nobody@example.org")
    clean = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    done = subprocess.run(
        ["git", *identity, *arguments],
        cwd=directory,
        env={**clean, "GIT_CONFIG_GLOBAL": os.devnull},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


@dataclass(frozen=True)
class Run:
    status: int
    out: str
    outputs: dict[str, str]

    @property
    def found(self) -> list[str]:
        """Path and code of each annotation."""
        return [
            f"{path} {code}"
            for path, code in re.findall(r"^::\w+ file=([^,]+),.*?title=(AMP\d+)", self.out, re.M)
        ]


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with amplint as `install.py` makes one, without an index of packages."""
    environment = tmp_path_factory.mktemp("environment")
    venv.create(environment, with_pip=False)
    paths = {"base": str(environment), "platbase": str(environment)}
    (site,) = {sysconfig.get_path(name, "venv", paths) for name in ("purelib", "platlib")}
    here = sysconfig.get_paths()
    lines = dict.fromkeys([str(ROOT), here["purelib"], here["platlib"]])
    Path(site, "amplint.pth").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return Path(sysconfig.get_path("scripts", "venv", paths), "python")


def pull_request(repository: Path) -> None:
    """Merges the branch `topic` as GitHub does."""
    git(repository, "checkout", "-q", "--detach", "main")
    git(repository, "merge", "-q", "--no-ff", "-m", "merge", "topic")
    git(repository, "update-ref", MERGE, "HEAD")


@pytest.fixture
def upstream(tmp_path: Path) -> Path:
    """A pull request: the base has a finding in old.py, the branch adds one in new.py."""
    repository = tmp_path / "upstream"
    repository.mkdir()
    git(repository, "init", "-q", "-b", "main")
    (repository / "old.py").write_text(OLD)
    (repository / "pyproject.toml").write_text("")
    git(repository, "add", "--all")
    git(repository, "commit", "-q", "-m", "base")
    git(repository, "checkout", "-q", "-b", "topic")
    (repository / "new.py").write_text(f"import torch\n{NEW}")
    git(repository, "add", "--all")
    git(repository, "commit", "-q", "-m", "topic")
    git(repository, "checkout", "-q", "main")
    (repository / "meanwhile.py").write_text(OLD)
    git(repository, "add", "--all")
    git(repository, "commit", "-q", "-m", "meanwhile, on main")
    pull_request(repository)
    return repository


class Job:
    """A job on a checkout of `upstream`."""

    def __init__(self, python: Path, upstream: Path, directory: Path) -> None:
        self.python = python
        self.upstream = upstream
        self.workspace = directory / "workspace"
        self.temporary = directory / "runner"
        self.workspace.mkdir()
        self.temporary.mkdir()

    def checkout(self, reference: str, *options: str) -> None:
        """As actions/checkout does it."""
        git(self.workspace, "init", "-q")
        git(self.workspace, "remote", "add", "origin", self.upstream.as_uri())
        here = f"refs/remotes/{reference}"
        git(self.workspace, "fetch", "-q", *options, "origin", f"+{reference}:{here}")
        git(self.workspace, "checkout", "-q", "--detach", here)

    def __call__(self, **environment: str) -> Run:
        """Runs the step `check` for the pull request, or as the environment says."""
        outputs = self.temporary / "outputs"
        outputs.write_text("")
        inputs = {name: one["default"] for name, one in ACTION["inputs"].items()}
        given = {
            **{key: os.environ[key] for key in ("PATH", "SYSTEMROOT", "HOME") if key in os.environ},
            **{f"AMPLINT_{name.upper().replace('-', '_')}": inputs[name] for name in inputs},
            "AMPLINT_PYTHON": str(self.python),
            "GITHUB_ACTION_PATH": str(ROOT),
            "GITHUB_EVENT_NAME": "pull_request",
            "GITHUB_BASE_REF": "main",
            "GITHUB_REF": MERGE,
            "GITHUB_SHA": git(self.upstream, "rev-parse", MERGE),
            "GITHUB_OUTPUT": str(outputs),
            "RUNNER_TEMP": str(self.temporary),
            **environment,
        }
        done = subprocess.run(
            [*BASH, STEPS["check"]["run"]],
            cwd=self.workspace,
            env=given,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        lines = outputs.read_text().splitlines()
        return Run(done.returncode, done.stdout, dict(line.split("=", 1) for line in lines))

    def sarif(self, run: Run) -> list[str]:
        """Path and code of each finding in the report."""
        report = json.loads(Path(run.outputs["sarif-file"]).read_text(encoding="utf-8"))
        return [
            f"{one['locations'][0]['physicalLocation']['artifactLocation']['uri']} {one['ruleId']}"
            for one in report["runs"][0]["results"]
        ]


@pytest.fixture
def job(python: Path, upstream: Path, tmp_path: Path) -> Job:
    return Job(python, upstream, tmp_path)


ALL = ["meanwhile.py AMP702", "new.py AMP701", "old.py AMP702"]


@pytest.mark.parametrize("depth", [1, 2, None])
def test_a_pull_request_shows_its_own_findings(job: Job, depth: int | None) -> None:
    """Not those that the base has got meanwhile; without a setting of actions/checkout."""
    job.checkout(MERGE, *([f"--depth={depth}"] if depth else []))
    run = job()
    assert (run.status, run.found) == (1, ["new.py AMP701"])


def test_the_log_of_the_page_is_the_one_of_a_job(job: Job) -> None:
    git(job.upstream, "checkout", "-q", "main")
    shutil.copytree(ROOT / "examples", job.upstream / "examples")
    git(job.upstream, "add", "--all")
    git(job.upstream, "commit", "-q", "-m", "examples")
    git(job.upstream, "checkout", "-q", "-B", "topic")
    file = job.upstream / "examples" / "train.py"
    line = "    scaler = torch.cuda.amp.GradScaler()\n"
    before = file.read_text()
    file.write_text(before.replace(line, f"    spare = torch.cuda.amp.GradScaler()\n{line}"))
    git(job.upstream, "commit", "-q", "--all", "-m", "spare")
    pull_request(job.upstream)
    job.checkout(MERGE, "--depth=1")
    page = (ROOT / "docs" / "ci.md").read_text(encoding="utf-8")
    shown = page.partition("```text\n")[2].partition("```")[0]
    base = git(job.upstream, "rev-parse", "main")
    assert job().out == re.sub(r"since \w{40}", f"since {base}", shown)


def test_a_push_shows_all(job: Job) -> None:
    job.checkout("refs/heads/main", "--depth=1")
    run = job(GITHUB_EVENT_NAME="push", GITHUB_BASE_REF="", GITHUB_REF="refs/heads/main")
    assert (run.status, run.found) == (1, ["meanwhile.py AMP702", "old.py AMP702"])


def test_a_pull_request_may_show_all(job: Job) -> None:
    job.checkout(MERGE, "--depth=1")
    assert job(AMPLINT_NEW_SINCE="").found == ALL


def test_a_pull_request_without_findings_of_its_own_ends_with_0(job: Job) -> None:
    git(job.upstream, "checkout", "-q", "topic")
    (job.upstream / "new.py").write_text("import torch\n")
    git(job.upstream, "commit", "-q", "--all", "-m", "nothing")
    pull_request(job.upstream)
    job.checkout(MERGE, "--depth=1")
    run = job(AMPLINT_SARIF="true")
    assert (run.status, run.found) == (0, [])
    assert job.sarif(run) == ["meanwhile.py AMP702", "old.py AMP702"]


def test_code_scanning_gets_all_findings(job: Job) -> None:
    """It would take those that it does not get for fixed."""
    job.checkout(MERGE, "--depth=1")
    run = job(AMPLINT_SARIF="true")
    assert (run.status, run.found) == (1, ["new.py AMP701"])
    assert job.sarif(run) == ALL
    everything = job(AMPLINT_SARIF="true", AMPLINT_NEW_SINCE="")
    assert (everything.found, job.sarif(everything)) == (ALL, ALL)


def test_the_last_commit_of_the_branch_is_compared_with_the_base(job: Job) -> None:
    """A workflow may check out that one, in place of the merge."""
    job.checkout(HEAD)
    git(job.workspace, "fetch", "-q", "origin", "main:refs/remotes/origin/main")
    assert job().found == ["new.py AMP701"]


def test_a_clone_without_the_base_says_what_to_set(job: Job) -> None:
    job.checkout(HEAD, "--depth=1")
    run = job(AMPLINT_SARIF="true")
    assert (run.status, run.outputs) == (2, {})
    assert "fetch-depth: 0" in run.out


def test_a_merge_that_cannot_be_fetched_says_what_to_set(job: Job) -> None:
    job.checkout(MERGE, "--depth=1")
    git(job.workspace, "remote", "set-url", "origin", (job.upstream / "gone").as_uri())
    run = job()
    assert run.status == 2
    assert run.out.startswith("::error title=amplint::")
    assert "fetch-depth: 2" in run.out


def test_a_revision_may_be_named(job: Job) -> None:
    job.checkout("refs/heads/main")
    run = job(GITHUB_EVENT_NAME="push", AMPLINT_NEW_SINCE="HEAD~1")
    assert run.found == ["meanwhile.py AMP702"]


def test_paths_and_options_are_those_of_the_inputs(job: Job) -> None:
    job.checkout(MERGE, "--depth=1")
    (job.workspace / "a b").mkdir()
    (job.workspace / "a b" / "c.py").write_text(OLD)
    every = {"AMPLINT_NEW_SINCE": ""}
    assert job(AMPLINT_PATHS="a b\n\n  new.py\n", **every).found == [
        "a b/c.py AMP702",
        "new.py AMP701",
    ]
    assert job(AMPLINT_ARGS="--select 'AMP701'", **every).found == ["new.py AMP701"]
    assert job(AMPLINT_ARGS="--exit-zero", **every).status == 0
    assert job(AMPLINT_PATHS="gone.py", **every).status == 2
    assert job(AMPLINT_PATHS="--version", **every).status == 2


@pytest.mark.parametrize(
    "inputs",
    [
        {"AMPLINT_PATHS": "$(touch harm)\n; touch harm\n`touch harm`"},
        {"AMPLINT_ARGS": "; touch harm $(touch harm) && touch harm"},
        {"AMPLINT_NEW_SINCE": "$(touch harm)"},
        {"AMPLINT_NEW_SINCE": "--output=harm"},
        {"AMPLINT_NEW_SINCE": "x\n::warning::harm"},
        {"GITHUB_BASE_REF": "$(touch harm)", "GITHUB_REF": "refs/heads/x"},
        {"AMPLINT_ARGS": "'"},
        {"AMPLINT_SARIF": "yes\n::warning::harm"},
        {"AMPLINT_COMMENT": "yes\n::warning::harm"},
    ],
)
def test_no_input_is_run(job: Job, inputs: dict[str, str]) -> None:
    job.checkout(MERGE, "--depth=1")
    run = job(**inputs)
    assert (run.status, run.outputs) == (2, {})
    assert not (job.workspace / "harm").exists()
    assert "\n::warning::harm" not in run.out


def test_modules_of_the_workspace_are_not_imported(job: Job) -> None:
    job.checkout(MERGE, "--depth=1")
    for name in ("amplint", "libcst", "shlex", "click"):
        (job.workspace / f"{name}.py").write_text("raise SystemExit('imported')\n")
    run = job(PYTHONPATH=str(job.workspace))
    assert (run.status, run.found) == (1, ["new.py AMP701"])


def test_the_installation_is_one_of_the_checkout_and_apart_from_the_workspace(
    tmp_path: Path,
) -> None:
    """pip is stood in for; `bash .ci/build` and the workflow of a release install for real."""
    stub = tmp_path / "stub"
    stub.mkdir()
    (tmp_path / "venv.py").write_text("raise SystemExit('imported')\n")
    code = (
        "import json, runpy, subprocess; calls = []\n"
        "done = subprocess.CompletedProcess([], 0)\n"
        "subprocess.run = lambda command, check: calls.append(command) or done\n"
        f"try: runpy.run_path({str(INSTALL)!r}, run_name='__main__')\n"
        "except SystemExit as ended: assert not ended.code\n"
        "print(json.dumps(calls))"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-c", code],
        cwd=tmp_path,
        env={
            **os.environ,
            "RUNNER_TEMP": str(stub),
            "GITHUB_ACTION_PATH": "/the action",
            "GITHUB_OUTPUT": str(stub / "outputs"),
        },
        capture_output=True,
        text=True,
        check=True,
    )
    created, installed = json.loads(done.stdout)
    assert created[1:] == ["-I", "-m", "venv", str(stub / "amplint")]
    assert installed[1:] == ["-I", "-m", "pip", "install", "--quiet", "/the action"]
    assert (stub / "outputs").read_text() == f"python={installed[0]}\n"


# ------------------------------------------------------------------------------ comments


class GitHub(http.server.BaseHTTPRequestHandler):
    """Plays the part of GitHub's API that the comments are made with."""

    files: list[dict[str, str]]
    comments: list[dict[str, str]]
    reviews: list[dict[str, Any]]
    may_write: bool

    def do_GET(self) -> None:
        assert self.headers["Authorization"] == "Bearer secret"
        path = self.path.partition("?")[0]
        answers = {"files": self.files, "comments": self.comments}
        self._answer(200, answers[path.removeprefix("/repos/o/r/pulls/7/")])

    def do_POST(self) -> None:
        content = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if not self.may_write:
            self._answer(403, {"message": "Resource not accessible by integration"})
            return
        assert self.path == "/repos/o/r/pulls/7/reviews"
        self.reviews.append(content)
        self.comments.extend(content["comments"])
        self._answer(200, {})

    def _answer(self, status: int, content: object) -> None:
        self.send_response(status)
        self.end_headers()
        self.wfile.write(json.dumps(content).encode())

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def github() -> Iterator[tuple[type[GitHub], str]]:
    patch = "@@ -0,0 +1,2 @@\n+import torch\n+region = torch.cuda.amp.autocast()"
    told: dict[str, Any] = {"comments": [], "reviews": [], "may_write": True}
    files = [{"filename": "new.py", "patch": patch}]
    handler = type("Handler", (GitHub,), {**told, "files": files})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield handler, f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def commented(job: Job, run: Run, url: str) -> tuple[int, str, str]:
    """Status, log and summary of the step `comment` after the step `check`."""
    head = git(job.upstream, "rev-parse", "topic")
    event = job.temporary / "event.json"
    event.write_text(json.dumps({"pull_request": {"number": 7, "head": {"sha": head}}}))
    summary = job.temporary / "summary"
    done = subprocess.run(
        [*BASH, STEPS["comment"]["run"]],
        cwd=job.workspace,
        env={
            **{key: os.environ[key] for key in ("PATH", "SYSTEMROOT", "HOME") if key in os.environ},
            "AMPLINT_PYTHON": str(job.python),
            "AMPLINT_FINDINGS": run.outputs["findings-file"],
            "AMPLINT_TOKEN": "secret",
            "GITHUB_ACTION_PATH": str(ROOT),
            "GITHUB_API_URL": url,
            "GITHUB_EVENT_PATH": str(event),
            "GITHUB_REPOSITORY": "o/r",
            "GITHUB_STEP_SUMMARY": str(summary),
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout, summary.read_text()


def test_a_new_finding_is_a_comment_and_its_fix_a_suggestion_once(
    job: Job, github: tuple[type[GitHub], str]
) -> None:
    handler, url = github
    job.checkout(MERGE, "--depth=1")
    run = job(AMPLINT_COMMENT="true")
    assert (run.status, run.found) == (1, ["new.py AMP701"])
    for _ in range(2):
        status, _, summary = commented(job, run, url)
        assert (status, "`new.py:2` AMP701" in summary) == (0, True)
    (review,) = handler.reviews
    (comment,) = review["comments"]
    assert (review["event"], review["commit_id"]) == (
        "COMMENT",
        git(job.upstream, "rev-parse", "topic"),
    )
    assert (comment["path"], comment["line"], comment["side"]) == ("new.py", 2, "RIGHT")
    assert '```suggestion\nregion = torch.amp.autocast("cuda")\n```' in comment["body"]


def test_a_token_that_only_reads_is_no_failure(job: Job, github: tuple[type[GitHub], str]) -> None:
    handler, url = github
    handler.may_write = False
    job.checkout(MERGE, "--depth=1")
    status, out, summary = commented(job, job(AMPLINT_COMMENT="true"), url)
    assert (status, handler.reviews) == (0, [])
    assert out.startswith("::notice title=amplint::no comments on the pull request")
    assert "AMP701" in summary


def test_no_server_is_no_failure(job: Job) -> None:
    job.checkout(MERGE, "--depth=1")
    status, out, _ = commented(job, job(AMPLINT_COMMENT="true"), "http://127.0.0.1:9")
    assert (status, out.count("::notice")) == (0, 1)


def test_what_a_pull_request_does_not_show_is_not_commented_on(
    job: Job, github: tuple[type[GitHub], str]
) -> None:
    handler, url = github
    handler.files = [{"filename": "other.py"}]
    job.checkout(MERGE, "--depth=1")
    status, _, _ = commented(job, job(AMPLINT_COMMENT="true"), url)
    assert (status, handler.reviews) == (0, [])


def test_a_push_has_nothing_to_comment_on(job: Job) -> None:
    job.checkout("refs/heads/main", "--depth=1")
    run = job(AMPLINT_COMMENT="true", AMPLINT_NEW_SINCE="")
    assert (run.status, run.outputs) == (1, {})
