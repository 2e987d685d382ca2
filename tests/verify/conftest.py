"""What the tests of the harness share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest


@pytest.fixture(scope="session")
def runner() -> Iterator[object]:
    """Runs specs; torch is imported once for each back end."""
    pytest.importorskip("torch")
    from amplint_verify.runs.run import running  # noqa: PLC0415

    with running() as runner:
        yield runner
