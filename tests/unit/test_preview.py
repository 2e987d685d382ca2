"""Rules in preview, and rules cut out of other ones: AMP115 out of AMP106, AMP211 out of AMP205."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from amplint.findings.finding import Group, RuleName
from amplint.project.config import Settings
from amplint.rule import registry
from amplint.source.source import former_rule
from tests.command import Amplint

TRAINING = """import torch.nn.functional as F


def train(model, loader, optimizer):
    for x, y in loader:
        optimizer.zero_grad()
        hot = F.one_hot(y.cuda()){comment}
        loss = (model(x.cuda()) * hot).sum()
        loss.backward()
        optimizer.step()
"""
SHARDED = """import torch
from torch import nn
from torch.distributed.fsdp import FullyShardedDataParallel


def train(net, loader):
    model = FullyShardedDataParallel(net)
    optimizer = torch.optim.AdamW(model.parameters())
    scaler = torch.amp.GradScaler("cuda")
    for x in loader:
        scaler.scale(model(x.cuda()).mean()).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
"""
NEW, OLD = "AMP115", "AMP106"
CUT = registry.find(NEW, registry.all_rules())


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return write(tmp_path)


def write(directory: Path, settings: str = "", comment: str = "") -> Path:
    (directory / "pyproject.toml").write_text(f"[tool.amplint]\n{settings}\n")
    (directory / "train.py").write_text(TRAINING.format(comment=comment))
    return directory


def codes(amplint: Amplint, *options: str) -> list[str]:
    out = amplint("check", "--format", "concise", *options).out
    return [line.split()[1] for line in out.splitlines() if line.startswith("train.py:")]


# ----------------------------------------------------------------------------- off and on


@pytest.mark.parametrize(("options", "code"), [([], "AMP404"), (["--preview"], "AMP420")])
def test_a_rule_in_preview_hides_nothing_while_off(
    project: Path, amplint: Amplint, options: list[str], code: str
) -> None:
    (project / "train.py").write_text(SHARDED)
    assert codes(amplint, "--select", "AMP4", *options) == [code]


def test_rules_in_preview_are_off(amplint: Amplint) -> None:
    assert codes(amplint) == []
    assert codes(amplint, "--select", "ALL") == [OLD]


@pytest.mark.parametrize(
    ("settings", "options"),
    [("", ["--preview"]), ("preview = true", []), ("", ["--preview", "--select", "AMP1"])],
)
def test_on_where_they_are_asked_for(
    amplint: Amplint, project: Path, settings: str, options: list[str]
) -> None:
    write(project, settings)
    assert codes(amplint, *options) == [NEW]


def test_the_command_line_switches_them_off(amplint: Amplint, project: Path) -> None:
    write(project, "preview = true")
    assert codes(amplint, "--no-preview") == []


@pytest.mark.parametrize("key", ["select", "extend-select"])
@pytest.mark.parametrize("word", [NEW, CUT.name])
def test_one_that_is_selected_needs_the_setting(
    amplint: Amplint, project: Path, key: str, word: str
) -> None:
    write(project, f'{key} = ["{word}"]')
    ran = amplint("check")
    assert ran.status == 2
    assert f"`{word}` is in preview: it needs `preview = true`, or --preview" in ran.err
    assert codes(amplint, "--preview") == [NEW]


def test_one_may_be_ignored_at_any_time(amplint: Amplint, project: Path) -> None:
    write(project, f'ignore = ["{NEW}"]')
    assert amplint("check").status == 0


def test_the_setting_is_true_or_false(amplint: Amplint, project: Path) -> None:
    write(project, 'preview = "yes"')
    ran = amplint("check")
    assert ran.status == 2
    assert "`preview` must be true or false, not 'yes'" in ran.err


def test_a_page_and_the_list_say_so(amplint: Amplint) -> None:
    out = amplint("explain", NEW).out
    assert "off by default (in preview: `preview = true`, or --preview switches it on)" in out


# ------------------------------------------------------------------- what was cut out of another


@pytest.mark.parametrize("word", [OLD, "data-dependent-shape-in-hot-path", NEW])
def test_comments_go_on_to_hold(amplint: Amplint, project: Path, word: str) -> None:
    write(project, "preview = true", f"  # amplint: ignore[{word}] one batch in a thousand")
    assert codes(amplint) == []
    assert codes(amplint, "--extend-select", OLD) == []


@pytest.mark.parametrize(
    "settings", [f'ignore = ["{OLD}"]', f'per-file-ignores = {{"train.py" = ["{OLD}"]}}']
)
def test_what_ignores_the_other_ignores_it(amplint: Amplint, project: Path, settings: str) -> None:
    write(project, f"preview = true\n{settings}")
    assert codes(amplint) == []


def test_what_selects_the_other_selects_it(amplint: Amplint, project: Path) -> None:
    write(project, f'preview = true\nselect = ["{OLD}"]')
    assert codes(amplint) == [NEW]


def test_what_names_it_alone_goes_before(amplint: Amplint, project: Path) -> None:
    write(project, f'preview = true\nextend-select = ["{NEW}"]\nignore = ["{OLD}"]')
    assert codes(amplint) == [NEW]
    write(project, f'preview = true\nextend-select = ["{OLD}"]\nignore = ["{NEW}"]')
    assert codes(amplint) == [OLD]


def test_known_findings_of_the_other_are_known(amplint: Amplint, project: Path) -> None:
    write(project, f'extend-select = ["{OLD}"]')
    assert "1 known finding" in amplint("baseline").err
    write(project, "preview = true")
    assert codes(amplint) == []
    (project / "train.py").write_text(TRAINING.format(comment="") * 2)
    assert codes(amplint) == [NEW]


UNDONE = """import torch


def score(proj: torch.nn.Linear, x):
    with torch.autocast("cuda", dtype=torch.bfloat16):
        q = proj(x)
        return q.float() @ q.float().t(){comment}
"""


@pytest.mark.parametrize("word", ["AMP205", "hard-coded-cast-in-autocast", "AMP211"])
def test_comments_on_casts_go_on_to_hold(amplint: Amplint, project: Path, word: str) -> None:
    (project / "train.py").write_text(UNDONE.format(comment=""))
    assert codes(amplint) == ["AMP211"]
    ignored = f"  # amplint: ignore[{word}] float32 where the region is off"
    (project / "train.py").write_text(UNDONE.format(comment=ignored))
    assert codes(amplint) == []


@pytest.mark.parametrize(
    ("settings", "found"),
    [
        ('ignore = ["AMP205"]', []),
        ('select = ["AMP205"]', ["AMP211"]),
        ('per-file-ignores = {"train.py" = ["hard-coded-cast-in-autocast"]}', []),
        ('ignore = ["AMP205"]\nextend-select = ["AMP211"]', ["AMP211"]),
    ],
)
def test_settings_on_casts_go_on_to_hold(
    amplint: Amplint, project: Path, settings: str, found: list[str]
) -> None:
    write(project, settings)
    (project / "train.py").write_text(UNDONE.format(comment=""))
    assert codes(amplint) == found


def test_known_casts_go_on_to_be_known(amplint: Amplint, project: Path) -> None:
    train = project / "train.py"
    train.write_text(UNDONE.format(comment=""))
    assert "1 known finding" in amplint("baseline").err
    baseline = project / ".amplint-baseline.json"
    baseline.write_text(
        baseline.read_text()
        .replace("AMP211", "AMP205")
        .replace("float-undone-by-autocast", "hard-coded-cast-in-autocast")
    )
    assert codes(amplint) == []


def test_other_rules_are_cut_from_nothing() -> None:
    assert former_rule(replace(CUT, cut_from=()), "") is None
    assert former_rule(CUT, "") == former_rule(CUT, OLD) == CUT.cut_from[0]
    several = replace(CUT, cut_from=(*CUT.cut_from, RuleName("AMP101", "host-read-in-hot-path")))
    for code in ("", "AMP102"):
        with pytest.raises(ValueError, match="AMP115 was not cut from"):
            former_rule(several, code)


def test_only_rules_that_are_there_are_cut() -> None:
    wrong = replace(CUT, cut_from=(RuleName("AMP106", "host-read-in-hot-path"),))
    with pytest.raises(registry.RegistryError, match="there is no AMP106 host-read-in-hot-path"):
        registry.ordered([wrong])


def test_settings_name_one_kind_by_each_of_its_names() -> None:
    settings = Settings(Path(), select=("performance",), ignore=(OLD,))
    names = (RuleName(NEW, CUT.name), *CUT.cut_from)
    assert settings.selects(names[:1], Group.PERFORMANCE)
    assert not settings.selects(names, Group.PERFORMANCE)


# ------------------------------------------------------- what was cut out of several, with AMP114

COMPILED = """import torch


@torch.compile
def step(x):
    {line}{comment}
    return x


def train(model, loader, optimizer):
    for x, y in loader:
        optimizer.zero_grad()
        loss = step(model(x.cuda())).mean()
        loss.backward()
        optimizer.step()
"""
CAPTURED = "AMP114"
FORMERS = {
    "AMP101": "n = x.sum().item()",
    "AMP103": "n = 1 if x.sum() > 0 else 2",
    "AMP106": "n = x[x > 0]",
}


def write_compiled(directory: Path, former: str, settings: str = "", comment: str = "") -> None:
    write(directory, settings)
    text = COMPILED.format(line=FORMERS[former], comment=comment)
    (directory / "train.py").write_text(text)


@pytest.mark.parametrize("former", FORMERS)
def test_one_of_several_speaks_in_its_place(amplint: Amplint, project: Path, former: str) -> None:
    write_compiled(project, former, f'select = ["{former}"]')
    assert codes(amplint) == [CAPTURED]
    assert codes(amplint, "--ignore", CAPTURED) == [former]


@pytest.mark.parametrize("former", FORMERS)
def test_what_is_said_of_one_of_several_holds(amplint: Amplint, project: Path, former: str) -> None:
    write_compiled(project, former, comment=f"  # amplint: ignore[{former}] measured")
    assert codes(amplint) == []
    write_compiled(project, former, f'ignore = ["{former}"]')
    assert CAPTURED not in codes(amplint)
    write_compiled(project, former, f'extend-select = ["{former}"]\nignore = ["{CAPTURED}"]')
    assert "1 known finding" in amplint("baseline").err
    write_compiled(project, former)
    assert codes(amplint) == []
