"""The torch that brought a name, or an argument of it, to which old code is migrated."""

from __future__ import annotations

from collections.abc import Mapping

# Read in torch/__init__.py, torch/amp/__init__.py and torch/_C/__init__.pyi of the wheels of 1.9.1,
# 1.10.0, 1.11.0, 1.12.0, 2.2.2, 2.3.0, 2.3.1, 2.4.0: each name is in that of its version, and not
# in the one before.
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
