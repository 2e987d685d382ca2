"""A thread is started in a region, but runs without autocast.

The autocast state belongs to the thread. A new thread, and the threads of a pool, begin with
autocast switched off, even if they are started in a region: their products run in float32, and
their results have another dtype than those of the main thread.

    with torch.autocast("cuda"):
        thread = threading.Thread(target=lambda: outputs.append(model(x)))
        thread.start()                                # runs in float32

    def work():
        with torch.autocast("cuda"):                  # the region is opened where the work is done
            outputs.append(model(x))

    threading.Thread(target=work).start()

A backward pass is not affected: the threads of autograd inherit the state.

Fix safety: there is no fix; the function that a thread runs may be called elsewhere as well.

Known limits: threads that are created outside a region and started in it, and subclasses of
`Thread`, are not seen. The rule is silent unless the thread is known to run a matrix product.
"""

from __future__ import annotations

from collections.abc import Iterator

from amplint import (
    IN_REGION,
    Dtype,
    Finding,
    Group,
    Presumes,
    Rule,
    View,
    nodes,
)

from ._thread_escape import ThreadWork

rule = Rule(
    "AMP310",
    __doc__,
    group=Group.PRECISION,
    help="open the region inside the function that the thread runs",
    witness=Dtype(bad="float32", good="bfloat16"),
    presumes=Presumes.AUDITED,
)


@rule.on(nodes("call") & IN_REGION)
def check(call: View) -> Iterator[Finding]:
    work = call.ask(ThreadWork)
    region = call.enabled_region if work is not None else None
    if work is None or region is None:
        return
    started = call.operands[0].brief
    message = f"`{started}` runs this in a thread without autocast, in float32"
    yield call.finding(message, (region.evidence, work))
