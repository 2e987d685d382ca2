"""What the tests of `amplint observe` share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.helpers import write


@pytest.fixture(scope="session")
def runner() -> Iterator[object]:
    """Runs specs; torch is imported once for each back end."""
    pytest.importorskip("torch")
    from amplint.verify.runs.run import running  # noqa: PLC0415

    with running() as runner:
        yield runner


@pytest.fixture
def seen(runner: object, tmp_path: Path) -> Callable[..., list[tuple[str, int]]]:
    """Runs `run(device)` of a program, and returns the codes that are reported, with their rows."""
    from amplint.core import registry  # noqa: PLC0415
    from amplint.core.text import Text  # noqa: PLC0415
    from amplint.observing.findings import findings_of  # noqa: PLC0415
    from amplint.verify.recording.observation import RunOutcome  # noqa: PLC0415
    from amplint.verify.runs.run import Runner  # noqa: PLC0415
    from amplint.verify.runs.spec import Spec  # noqa: PLC0415

    assert isinstance(runner, Runner)

    def observe(text: str, backend: str = "sim") -> list[tuple[str, int]]:
        write({"program.py": text.encode()}, tmp_path)
        observation = runner.once(
            Spec(
                root=str(tmp_path),
                target="program:run",
                backend=backend,
                args=("{device}",),
                guess=False,
                watched=True,
            )
        )
        assert observation.outcome is RunOutcome.OK, observation.text
        texts = {"program.py": Text(text)}
        found = findings_of(observation, registry.own_rules(), texts)
        return sorted((each.code, each.span.start.row) for each in found)

    return observe
