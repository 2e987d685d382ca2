"""The parts of the back end `cuda` that need no GPU."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from amplint_verify.recording.observation import Wait

torch = pytest.importorskip("torch")
cuda = pytest.importorskip("amplint_verify.backends.cuda")


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    enabled = torch.are_deterministic_algorithms_enabled()
    warns = torch.is_deterministic_algorithms_warn_only_enabled()
    yield
    torch.use_deterministic_algorithms(enabled, warn_only=warns)


@pytest.mark.parametrize(("strict", "expected"), [(False, False), (True, True)])
def test_what_is_called_without_determinism(strict: bool, expected: bool) -> None:
    """Of the harness, not of the program."""
    seen: list[bool] = []
    with cuda.deterministic():
        if strict:
            torch.use_deterministic_algorithms(True)
        cuda.as_without_determinism(
            lambda: seen.append(torch.are_deterministic_algorithms_enabled())
        )()
        assert torch.are_deterministic_algorithms_enabled()
        assert torch.is_deterministic_algorithms_warn_only_enabled() is not strict
        assert torch.nn.functional.interpolate(torch.ones(1, 1, 2, 2), scale_factor=2.0).dim() == 4
    assert seen == [expected]


class OnGpu:
    """What a factory gives there."""

    is_cuda = True

    def numel(self) -> int:
        return 2

    def element_size(self) -> int:
        return 4


class Noting:
    def __init__(self) -> None:
        self.seen: list[tuple[Wait, int]] = []

    def waited(self, wait: Wait, _: str, __: object = None, size: int = 0) -> None:
        self.seen.append((wait, size))


def first(*_: object, **__: object) -> OnGpu:
    return OnGpu()


def second(*_: object, **__: object) -> OnGpu:
    return OnGpu()


def other(*_: object) -> OnGpu:
    return OnGpu()


@pytest.mark.parametrize(
    ("function", "args", "kwargs", "copies"),
    [
        (first, ([1.0, 2.0],), {}, True),
        (first, (1.0, "float32", "cuda"), {}, True),
        (first, (), {"data": [1.0]}, True),
        (first, (torch.ones(2),), {}, False),
        (second, (torch.ones(2), [1.0], "float32"), {}, True),
        (second, (torch.ones(2), torch.ones(2)), {}, False),
        (other, ([1.0],), {}, False),
    ],
)
def test_a_tensor_of_numbers_is_a_copy(
    function: Any, args: Any, kwargs: Any, copies: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cuda, "BUILDERS", {first: 0, second: 1})
    noting = Noting()
    cuda.CudaReads(noting).__torch_function__(function, (), args, kwargs)
    assert noting.seen == ([(Wait.TO_DEVICE, 8)] if copies else [])
