"""Anomaly detection is always switched on.

`torch.autograd.set_detect_anomaly(True)` records a stack trace for every operation of the forward
pass and looks for NaN after every one of the backward pass, which waits for the device. It is a
tool to find the source of a NaN; left on, it slows down every training step in the whole process.

    torch.autograd.set_detect_anomaly(True)          # at the top of a file: for all who import it

    torch.autograd.set_detect_anomaly(args.debug)

Fix safety: there is no fix: only the author knows whether the search for a NaN is over.

Known limits: profilers, `gradcheck` and `with detect_anomaly():` are not reported. Silent under any
condition, in tests, in functions whose names mention debugging, and in files that switch it off
again.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from amplint import Cost, Finding, Group, Rule, Same, View, calls, constant
from amplint.knowledge.vocabulary import SEARCHES_NAN, TEST_PATH

from .._shared.guards import tests_around

SWITCHES = frozenset(
    {"torch.autograd.set_detect_anomaly", "torch.autograd.anomaly_mode.set_detect_anomaly"}
)
OFF_AGAIN = re.compile(r"set_detect_anomaly\((?!\s*(mode\s*=\s*)?True\b)")


rule = Rule(
    "AMP903",
    __doc__,
    group=Group.PERFORMANCE,
    help="switch it on by an option, only while you search for a NaN",
    witness=Same(),
    cost=Cost.STEP,
)


@rule.on(calls(*SWITCHES))
def check(call: View) -> Iterator[Finding]:
    mode = call.arg("mode", 0)
    if call.callee not in SWITCHES or mode is None or constant(mode.value) is not True:
        return
    src = call.source
    if src.layout.value_used(call.cst) or is_meant(call) or src.says(OFF_AGAIN):
        return
    yield call.finding("anomaly detection stays on, and slows down every step")


def is_meant(call: View) -> bool:
    """Ex) if args.debug: ..., def find_nan(): ..."""
    src = call.source
    tests = [test.text for test in tests_around(call)]
    if any("__name__" not in test for test in tests):
        return True
    return bool(SEARCHES_NAN.search(src.layout.scope(call.cst)) or TEST_PATH.search(src.path))
