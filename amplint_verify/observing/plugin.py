"""The plugin of pytest: `pytest --amplint-observe`. Without its options it does nothing, and
imports nothing.

PYTEST_DONT_REWRITE
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("amplint", "mixed-precision mistakes")
    group.addoption(
        "--amplint-observe",
        action="store_true",
        help="Watch the tests as they run, and report the mixed-precision mistakes that they show, "
        "as `amplint observe` does.",
    )
    group.addoption(
        "--amplint-observe-fail",
        action="store_true",
        help="The same, and exit with 1 if there are any mistakes.",
    )
    group.addoption(
        "--amplint-under",
        metavar="MODE",
        help="The same, and run each test again as callers do that train in half: what the project "
        "is called for runs in a region (autocast-float16, autocast-bfloat16), or with the model "
        "and its inputs cast (float16, bfloat16).",
    )


def pytest_configure(config: pytest.Config) -> None:
    options = ("--amplint-observe", "--amplint-observe-fail", "--amplint-under")
    if any(map(config.getoption, options)):
        from amplint_verify.observing import suite  # noqa: PLC0415  (nobody pays who has not asked for it)

        suite.register(config)


def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    if early_config.known_args_namespace.amplint_under:
        from amplint_verify.backends.standin import asked_regions  # noqa: PLC0415  (the same)

        stack = ExitStack()
        stack.enter_context(asked_regions())
        early_config.add_cleanup(stack.close)
