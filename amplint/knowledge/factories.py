"""Calls that build a tensor from what is none."""

from __future__ import annotations

from dataclasses import dataclass

from amplint.knowledge.names import pairs


@dataclass(frozen=True)
class Factory:
    """A call that builds a tensor from what is none.

    Args:
        dtype: without `dtype=`: "default"; "like" (of the tensor argument); "fill" (of the fill
            value: bool, int64 or default); "numbers" (int64 if all are ints, else default);
            "data" (that of the tensor or array given; Python numbers as "numbers", bools bool);
            "unknown"; or by name.
        parameters: the names of the positional arguments.
        rank: "sizes" (0-dim for empty sizes, else some); "some"; "like"; "data"; "scalar"; or
            "unknown".
        sizes: whether the sizes may be given one by one (`torch.zeros(2, 3)`).
        takes_dtype: whether there is a `dtype=`.
        takes_device: whether there is a `device=`.
        values: "exact" (the same on every device); "rounded" (the last bit may differ); "random"
            (each device has its own stream); "none" (not initialised).
        device: without `device=`: "default" (the CPU, except for torch.set_default_device), "like"
            (of the tensor argument), or "cpu" always.
    """

    dtype: str
    parameters: tuple[str, ...]
    rank: str = "sizes"
    sizes: bool = False
    takes_dtype: bool = True
    takes_device: bool = True
    values: str = "exact"
    device: str = "default"

    @property
    def deterministic(self) -> bool:
        """Whether building it on a device has the result of building it elsewhere and moving it."""
        return self.values in ("exact", "none")


def _sizes(values: str = "exact", dtype: str = "default") -> Factory:
    return Factory(dtype, ("size",), sizes=True, values=values)


def _line(*parameters: str) -> Factory:
    return Factory("default", parameters, "some", values="rounded")


def _like(values: str, *parameters: str) -> Factory:
    return Factory("like", ("input", *parameters), "like", values=values, device="like")


def _new(values: str, *parameters: str, sizes: bool = False) -> Factory:
    return Factory("like", parameters, "sizes", sizes, values=values, device="like")


FACTORIES: dict[str, Factory] = {
    # Of sizes.
    "torch.empty": _sizes("none"),
    "torch.empty_permuted": Factory("default", ("size", "physical_layout"), values="none"),
    "torch.empty_strided": Factory("default", ("size", "stride"), values="none"),
    "torch.eye": Factory("default", ("n", "m"), "some"),
    "torch.full": Factory("fill", ("size", "fill_value")),
    "torch.ones": _sizes(),
    "torch.rand": _sizes("random"),
    "torch.randint": Factory("int64", ("low", "high", "size"), values="random"),
    "torch.randn": _sizes("random"),
    "torch.tril_indices": Factory("int64", ("row", "col", "offset"), "some"),
    "torch.triu_indices": Factory("int64", ("row", "col", "offset"), "some"),
    "torch.zeros": _sizes(),
    # Of a range. The integers of an arange are exact, its floats are rounded.
    "torch.arange": Factory("numbers", ("start", "end", "step"), "some", values="rounded"),
    "torch.linspace": _line("start", "end", "steps"),
    "torch.logspace": _line("start", "end", "steps", "base"),
    "torch.randperm": Factory("int64", ("n",), "some", values="random"),
    "torch.range": _line("start", "end", "step"),
    # Of data.
    "torch.as_tensor": Factory("data", ("data", "dtype", "device"), "data"),
    "torch.asarray": Factory("data", ("obj",), "data"),
    "torch.from_dlpack": Factory("data", ("ext_tensor",), "data", takes_dtype=False),
    "torch.from_numpy": Factory(
        "data", ("ndarray",), "data", takes_dtype=False, takes_device=False, device="cpu"
    ),
    "torch.frombuffer": Factory("unknown", ("buffer",), "some", takes_device=False, device="cpu"),
    "torch.normal": Factory("unknown", ("mean", "std", "size"), "unknown", values="random"),
    "torch.scalar_tensor": Factory("default", ("s",), "scalar"),
    "torch.tensor": Factory("data", ("data",), "data"),
    # Of another tensor's dtype and device: of its shape too, or of sizes.
    "torch.empty_like": _like("none"),
    "torch.full_like": _like("exact", "fill_value"),
    "torch.ones_like": _like("exact"),
    "torch.rand_like": _like("random"),
    "torch.randint_like": _like("random", "low", "high"),
    "torch.randn_like": _like("random"),
    "torch.zeros_like": _like("exact"),
    "Tensor.new": Factory(
        "like", ("size",), "unknown", True, takes_dtype=False, values="none", device="like"
    ),
    "Tensor.new_empty": _new("none", "size", sizes=True),
    "Tensor.new_empty_strided": _new("none", "size", "stride"),
    "Tensor.new_full": _new("exact", "size", "fill_value"),
    "Tensor.new_ones": _new("exact", "size", sizes=True),
    "Tensor.new_tensor": Factory("like", ("data",), "data", device="like"),
    "Tensor.new_zeros": _new("exact", "size", sizes=True),
    # Windows and frequencies.
    "torch.bartlett_window": _line("window_length", "periodic"),
    "torch.blackman_window": _line("window_length", "periodic"),
    "torch.fft.fftfreq": _line("n", "d"),
    "torch.fft.rfftfreq": _line("n", "d"),
    "torch.hamming_window": _line("window_length", "periodic", "alpha", "beta"),
    "torch.hann_window": _line("window_length", "periodic"),
    "torch.kaiser_window": _line("window_length", "periodic", "beta"),
}

FROM_DATA = frozenset({"data", "arg"})
"""The dtype words of factories that copy data of the host."""
BUILDABLE: frozenset[str] = frozenset(
    name
    for name, facts in FACTORIES.items()
    if facts.device == "default" and facts.takes_device and facts.dtype not in FROM_DATA
)
"""Factories that build on the CPU, and could do so on any device."""

_LEGACY = pairs(
    """
    BFloat16=bfloat16 Bool=bool Byte=uint8 Char=int8 Double=float64 Float=float32 Half=float16
    Int=int32 Long=int64 Short=int16
    """
)
LEGACY_CONSTRUCTORS: dict[str, tuple[str, str]] = {
    "torch.Tensor": ("default", "cpu"),
    **{f"torch.{name}Tensor": (dtype, "cpu") for name, dtype in _LEGACY.items()},
    **{f"torch.cuda.{name}Tensor": (dtype, "cuda") for name, dtype in _LEGACY.items()},
}
"""Constructors of old -> dtype and device. Ints are sizes (not initialised), a sequence is data."""
