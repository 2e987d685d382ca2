"""A method of a model that accelerate has prepared runs its layers outside the region of training.

With `mixed_precision="fp16"` or `"bf16"`, `accelerator.prepare(model)` replaces `model.forward` by
one that runs in an autocast region. Other methods that call layers of the model, as `sample`, run
in float32: more slowly, and not as the model was trained; half inputs raise.

    accelerator = Accelerator(mixed_precision="fp16")
    model, optimizer = accelerator.prepare(model, optimizer)
    accelerator.backward(model(x))                              # in the region
    images = accelerator.unwrap_model(model).sample(noise)      # in none

    with accelerator.autocast():
        images = accelerator.unwrap_model(model).sample(noise)

`accelerator.unwrap_model(model)(x)` keeps the region, and so does a method that calls `self(x)`:
`forward` stays replaced unless `keep_fp32_wrapper=False` is given.

Fix safety: none is offered: sampling in float32 may be intended.

Known limits: the precision has to be a constant, and the model to be called in the function of a
backward pass. Silent if the method mentions autocast, or in an unknown context. A copy of the model
(EMA) is not followed.
"""

from __future__ import annotations

from collections.abc import Iterator

from amplint import CalledTexts, Finding, Group, Rule, Unrun, View, is_unknown, nodes

from ._prepared_modules import OF_PREPARED_MODULE, BypassedRegions

rule = Rule(
    "AMP318",
    __doc__,
    group=Group.PRECISION,
    help="call it in `with accelerator.autocast():`, or call the model itself",
    witness=Unrun(
        "it takes a framework",
        "accelerator.py (prepare_model) of release 1.15",
    ),
    preview=True,
)


@rule.on(nodes("call") & OF_PREPARED_MODULE)
def check(call: View) -> Iterator[Finding]:
    """Ex) accelerator.unwrap_model(model).sample(noise)"""
    if call.region is not None or not call.mentions("Accelerator"):
        return
    if call.mentions("Fabric") or any(is_unknown(each.value) for each in call.contexts_around):
        return
    bypass = call.ask(BypassedRegions)
    if bypass is None or any("autocast" in text for text in call.ask(CalledTexts) or ()):
        return
    message = f"`{call.brief}` runs outside the region of training: in float32"
    yield call.finding(message, bypass)
