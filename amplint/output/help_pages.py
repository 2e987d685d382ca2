"""The published pages that explain what amplint's own rules are about.

amplint's pages are published nowhere yet (`PAGES` in `claim/claim.py`), and an editor and a service
for code scanning want an address. These are PyTorch's and Lightning's own; their anchors are
headings of pytorch/pytorch, docs/source/ (amp.md, data.md, optim.md, type_info.rst, notes/), and of
pytorch/tutorials, recipes_source/recipes/ (amp_recipe.py, tuning_guide.py). A rule whose own page
names an address needs no other one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from amplint.rule.rule import Rule

URL = re.compile(r"https?://[^\s<>`)\]]+[^\s<>`)\].,;:]")

DOCS = "https://docs.pytorch.org/docs/stable/"
TUTORIALS = "https://docs.pytorch.org/tutorials/"
LIGHTNING = "https://lightning.ai/docs/pytorch/stable/"

AUTOCASTING = f"{DOCS}amp.html#autocasting"
OPERATIONS = f"{DOCS}amp.html#autocast-op-reference"
SCALING = f"{DOCS}amp.html#gradient-scaling"
EXAMPLES = f"{DOCS}notes/amp_examples.html"
UNSCALED = f"{EXAMPLES}#working-with-unscaled-gradients"
NUMBERS = f"{DOCS}type_info.html"
GUIDE = f"{TUTORIALS}recipes/recipes/tuning_guide.html"
ON_DEVICE = f"{GUIDE}#create-tensors-directly-on-the-target-device"
NO_SYNC = f"{DOCS}generated/torch.nn.parallel.DistributedDataParallel.html"
PINNING = f"{TUTORIALS}intermediate/pinmem_nonblock.html"

# By the beginning of a code, of which the longest counts. "" where no page is about it.
PAGE_OF: Mapping[str, str] = {
    "AMP0": "",  # about suppressions, and files that cannot be read
    "AMP1": f"{GUIDE}#avoid-unnecessary-cpu-gpu-synchronization",
    "AMP109": f"{DOCS}notes/cuda.html#asynchronous-execution",
    "AMP111": f"{DOCS}notes/cuda.html#memory-management",
    "AMP2": OPERATIONS,
    "AMP206": "",  # outside of regions
    "AMP207": NUMBERS,
    "AMP209": f"{DOCS}notes/numerical_accuracy.html",
    "AMP3": AUTOCASTING,
    "AMP304": f"{DOCS}amp.html#prefer-binary-cross-entropy-with-logits-over-binary-cross-entropy",
    "AMP308": SCALING,
    "AMP309": f"{EXAMPLES}#autocast-and-custom-autograd-functions",
    "AMP312": OPERATIONS,
    "AMP313": OPERATIONS,
    "AMP4": EXAMPLES,
    "AMP404": UNSCALED,
    "AMP405": UNSCALED,
    "AMP406": UNSCALED,
    "AMP410": SCALING,
    "AMP411": SCALING,
    "AMP412": f"{EXAMPLES}#gradient-accumulation",
    "AMP413": f"{TUTORIALS}recipes/recipes/amp_recipe.html#saving-resuming",
    "AMP414": UNSCALED,
    "AMP415": SCALING,
    "AMP417": SCALING,
    "AMP418": f"{DOCS}optim.html#how-to-adjust-learning-rate",
    "AMP5": ON_DEVICE,
    "AMP503": f"{DOCS}generated/torch.tensor.html",
    "AMP504": f"{DOCS}tensors.html",
    "AMP505": PINNING,
    "AMP506": PINNING,
    "AMP508": f"{DOCS}notes/cuda.html#device-agnostic-code",
    "AMP509": f"{DOCS}generated/torch.nn.Module.html#torch.nn.Module.register_buffer",
    "AMP601": f"{DOCS}generated/torch.nn.DataParallel.html",
    "AMP602": f"{EXAMPLES}#dataparallel-in-a-single-process",
    "AMP603": NO_SYNC,
    "AMP604": NO_SYNC,
    "AMP61": "",  # of Lightning's modules
    "AMP611": f"{LIGHTNING}api/lightning.pytorch.trainer.trainer.Trainer.html",
    "AMP612": f"{LIGHTNING}common/trainer.html#precision",
    "AMP7": f"{DOCS}amp.html",
    "AMP705": EXAMPLES,
    "AMP8": NUMBERS,
    "AMP901": f"{DOCS}notes/faq.html",
    "AMP902": f"{GUIDE}#disable-gradient-calculation-for-validation-or-inference",
    "AMP903": f"{GUIDE}#disable-debugging-apis",
    "AMP904": f"{DOCS}generated/torch.tensor.html",
    "AMP911": f"{DOCS}data.html#memory-pinning",
    "AMP912": f"{DOCS}data.html#single-and-multi-process-data-loading",
    "AMP913": f"{DOCS}notes/multiprocessing.html#cuda-in-multiprocessing",
}


def page_on(code: str) -> str:
    """The address of the page that explains a code best; "" where none does."""
    beginnings = (code[:length] for length in range(len(code), 0, -1))
    return next((PAGE_OF[each] for each in beginnings if each in PAGE_OF), "")


def help_uri(rule: Rule) -> str:
    """The absolute address of the rule's page; else the best there is.

    That is an address in the page itself; or, for amplint's own rules, a page of the library that
    explains it. "" where there is none: a page about something else would be worse.
    """
    if "://" in rule.url:
        return rule.url
    named = URL.search(rule.doc)
    return named.group() if named else "" if rule.package else page_on(rule.code)
