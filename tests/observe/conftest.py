"""What the tests of `amplint observe` share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.helpers import write


@pytest.fixture
def observe(runner: object, tmp_path: Path) -> Callable[..., Any]:
    """Runs `run(device)` of a program, and returns the observation and the findings."""
    from amplint.rule import registry  # noqa: PLC0415
    from amplint.util.text import Text  # noqa: PLC0415
    from amplint_verify.observing.findings import findings_of  # noqa: PLC0415
    from amplint_verify.recording.observation import RunOutcome  # noqa: PLC0415
    from amplint_verify.runs.run import Runner  # noqa: PLC0415
    from amplint_verify.runs.spec import Spec  # noqa: PLC0415

    assert isinstance(runner, Runner)

    def observe(text: str, backend: str = "sim", **more: Any) -> Any:
        write({"program.py": text.encode()}, tmp_path)
        observation = runner.once(
            Spec(
                root=str(tmp_path),
                target="program:run",
                backend=backend,
                args=("{device}",),
                guess=False,
                watched=True,
                **more,
            )
        )
        assert observation.outcome is RunOutcome.OK, observation.text
        texts = {"program.py": Text(text)}
        return observation, list(findings_of(observation, registry.own_rules(), texts))

    return observe


@pytest.fixture
def seen(observe: Callable[..., Any]) -> Callable[..., list[tuple[str, int]]]:
    """The codes that are reported of a program, with their rows."""

    def seen(text: str, backend: str = "sim") -> list[tuple[str, int]]:
        _, found = observe(text, backend)
        return sorted((each.code, each.span.start.row) for each in found)

    return seen


@pytest.fixture
def said(observe: Callable[..., Any]) -> Callable[..., list[str]]:
    """The messages of what is reported of a program, in the order in which it was seen."""

    def said(text: str, backend: str = "sim") -> list[str]:
        _, found = observe(text, backend)
        return [each.message for each in found]

    return said
