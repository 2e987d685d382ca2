"""The torch that brought a name, or an argument of it, to which old code is migrated."""

from __future__ import annotations

from collections.abc import Mapping

# By the release notes (https://github.com/pytorch/pytorch/releases), and by which of the wheels'
# files, torch/amp/__init__.py and torch/_C/_VariableFunctions.pyi or torch/overrides.py, first has
# the name.
SINCE: Mapping[str, str] = {
    "torch.autocast": "1.10",
    "torch.amp.autocast": "1.12",
    "torch.amp.GradScaler": "2.3",
    "torch.amp.custom_fwd": "2.4",
    "torch.amp.custom_bwd": "2.4",
    "torch.is_autocast_enabled(device_type)": "2.4",
    "torch.set_autocast_enabled(device_type)": "2.4",
    "torch.get_autocast_dtype": "2.4",
    "torch.set_autocast_dtype": "2.4",
}
