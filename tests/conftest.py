"""Options and fixtures that all tests share."""

from __future__ import annotations

import pytest
from hypothesis import settings

# A busy machine takes longer over an example, and that is no failure.
settings.register_profile("amplint", deadline=None)
settings.load_profile("amplint")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update",
        action="store_true",
        help="write the snapshots (fixtures/*/report.txt) anew instead of comparing with them",
    )


@pytest.fixture
def update(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.getoption("--update"))
