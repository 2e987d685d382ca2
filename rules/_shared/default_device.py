"""Where tensors are built by default."""

from __future__ import annotations

from amplint import ProjectText, View

SETS_OTHER_TYPE = r"set_default_tensor_type\((?!\s*[\"']?\w+\.(Float|Double|Half|BFloat16)Tensor\b)"

# Ex) with torch.device("meta"):, with main_device:, with init_empty_weights():; not with
# torch.cuda.device(1):, nor words of a sentence: with device capacity
WITHIN_DEVICE = (
    r"^\s*with\s+(\(?(?!torch\.(cuda|xpu)\b)[\w.]*device\s*([(:,)]|(as|if)\b)"
    r"|.*(\btorch\.device|init_(empty_weights|on_device))\()"
)


def changes_default_device(at: View) -> bool:
    """Whether tensors may be built elsewhere than on the CPU by default."""
    return (
        at.fact(ProjectText).is_called("set_default_device")
        or at.matches(SETS_OTHER_TYPE, "set_default_tensor_type")
        or at.matches(WITHIN_DEVICE, "device", "init_empty_weights")
    )
