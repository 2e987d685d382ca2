"""Options and fixtures that all tests share."""

from __future__ import annotations

import pytest

from tests.helpers import Linted


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update",
        action="store_true",
        help="write the snapshots (fixtures/*/report.txt) anew instead of comparing with them",
    )


@pytest.fixture
def update(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.getoption("--update"))


@pytest.fixture(scope="session")
def linted(tmp_path_factory: pytest.TempPathFactory) -> Linted:
    """What is found in the bad program of each folder, asked once."""
    return Linted(tmp_path_factory)
