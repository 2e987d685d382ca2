"""amplint: a linter for PyTorch training code that knows mixed precision.

`observe` is for programs (docs/observe.md): `with amplint.observe(): ...` watches what is inside.

Beside it, this module offers all that the author of a rule needs. The names in `__all__` are
promised to rules of other packages too (docs/own-rules.md); the others change with amplint's own
rules, without notice. A name is imported when it is first used, so that `amplint --help` pays for
none of it.
`libcst` is LibCST, imported when a rule first uses a name of it; `Source` imports it, and so rules
name that one where types are checked alone.

PYTEST_DONT_REWRITE: pytest would warn that it cannot, where this was imported before it started.
"""

# ruff: noqa: E402

from __future__ import annotations

import os
import sys

_HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))  # noqa: PTH100, PTH120
if sys.argv[:1] == ["-m"] and sys.path[:1] == [os.getcwd()] != [_HERE]:  # noqa: PTH109
    # `python -m amplint`: Python searches the current directory first, which may be a stranger's
    # repository, and what is imported from here on would be code of it.
    del sys.path[0]

import importlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from amplint.util.lazy import LazyModule

__version__ = "0.1.0"

__all__ = [
    "ACCELERATOR", "CPU", "EVALUATED", "FLOATS", "HALF", "HOT", "IN_REGION", "NONE",
    "NUMBER_KINDS", "READ", "SOMEWHERE_HOT", "UNKNOWN", "WITHIN_REGION", "WITH_HALF",
    "Autocast", "Candidates", "Change", "Cost", "DType", "Device", "Edit", "Evidence",
    "Finding", "Fix", "Group", "Heat", "Host", "Object", "Presumes", "Region", "Related", "Rule",
    "Safety", "Source", "Symbol", "Tensor", "Unknown", "Value", "View", "__version__", "calls",
    "calls_with", "constant", "is_autocast", "is_unknown", "known", "libcst", "nodes", "only",
]  # fmt: skip

_CHECKOUT = Path(__file__).resolve().parent.parent
if (_CHECKOUT / "rules" / "__init__.py").is_file():  # not installed: rules/ lies beside amplint/
    __path__.append(str(_CHECKOUT))

_EXPORTS = {
    "amplint.analyses.backward_reach": "BackpropagatedLosses",
    "amplint.facts.project_classes": "Classes",
    "amplint.analyses.hotness": "EVALUATION TRAINING",
    "amplint.analyses.tensor_certainty": "NotGuessed TensorCertainty",
    "amplint.facts.code_texts": "CalledTexts FunctionTexts ProjectText",
    "amplint.findings.declaration": "Change Presumes",
    "amplint.findings.finding": "Cost Edit Finding Fix Group Related RuleName Safety",
    "amplint.findings.violations": "Violation",
    "amplint.findings.witness": "Differs Dtype Raises Same Syncs Unrun Warns",
    "amplint.source.literals": "literal",
    "amplint.gradscaler.checker": "Misuse",
    "amplint.inference.transfer": "canonical region_dtype tensors_in",
    "amplint.knowledge.dtypes": "FLOATS HALF",
    "amplint.rule.conditions": "Candidates calls calls_of calls_with in_functions_with nodes",
    "amplint.rule.where": "EVALUATED HOT IN_REGION MISUSED SOMEWHERE_HOT WITHIN_REGION WITH_HALF",
    "amplint.rule.rule": "Rule",
    "amplint.source.source": "Source",
    "amplint.util.walks": "reachable",
    "amplint.values.atoms": (
        "ACCELERATOR Atom Autocast CPU Class DType Device Evidence Function Heat Host Instance "
        "Mapping Method NONE NUMBER_KINDS NoGrad Object Reason Region Sequence Shows Symbol "
        "Tensor TensorTree UNKNOWN Unknown Value constant evidence_of is_autocast"
    ),
    "amplint.values.lattice": "is_unknown known only",
    "amplint.view.view": "READ View",
    "amplint_verify.observing.block": "observe",
}
_HOME = {name: module for module, names in _EXPORTS.items() for name in names.split()}

if TYPE_CHECKING:
    import libcst as libcst

    from amplint.analyses.backward_reach import BackpropagatedLosses as BackpropagatedLosses
    from amplint.analyses.hotness import EVALUATION as EVALUATION
    from amplint.analyses.hotness import TRAINING as TRAINING
    from amplint.analyses.tensor_certainty import NotGuessed as NotGuessed
    from amplint.analyses.tensor_certainty import TensorCertainty as TensorCertainty
    from amplint.facts.code_texts import CalledTexts as CalledTexts
    from amplint.facts.code_texts import FunctionTexts as FunctionTexts
    from amplint.facts.code_texts import ProjectText as ProjectText
    from amplint.facts.project_classes import Classes as Classes
    from amplint.findings.declaration import Change as Change
    from amplint.findings.declaration import Presumes as Presumes
    from amplint.findings.finding import Cost as Cost
    from amplint.findings.finding import Edit as Edit
    from amplint.findings.finding import Finding as Finding
    from amplint.findings.finding import Fix as Fix
    from amplint.findings.finding import Group as Group
    from amplint.findings.finding import Related as Related
    from amplint.findings.finding import RuleName as RuleName
    from amplint.findings.finding import Safety as Safety
    from amplint.findings.violations import Violation as Violation
    from amplint.findings.witness import Differs as Differs
    from amplint.findings.witness import Dtype as Dtype
    from amplint.findings.witness import Raises as Raises
    from amplint.findings.witness import Same as Same
    from amplint.findings.witness import Syncs as Syncs
    from amplint.findings.witness import Unrun as Unrun
    from amplint.findings.witness import Warns as Warns
    from amplint.gradscaler.checker import Misuse as Misuse
    from amplint.inference.transfer import canonical as canonical
    from amplint.inference.transfer import region_dtype as region_dtype
    from amplint.inference.transfer import tensors_in as tensors_in
    from amplint.knowledge.dtypes import FLOATS as FLOATS
    from amplint.knowledge.dtypes import HALF as HALF
    from amplint.rule.conditions import Candidates as Candidates
    from amplint.rule.conditions import calls as calls
    from amplint.rule.conditions import calls_of as calls_of
    from amplint.rule.conditions import calls_with as calls_with
    from amplint.rule.conditions import in_functions_with as in_functions_with
    from amplint.rule.conditions import nodes as nodes
    from amplint.rule.rule import Rule as Rule
    from amplint.rule.where import EVALUATED as EVALUATED
    from amplint.rule.where import HOT as HOT
    from amplint.rule.where import IN_REGION as IN_REGION
    from amplint.rule.where import MISUSED as MISUSED
    from amplint.rule.where import SOMEWHERE_HOT as SOMEWHERE_HOT
    from amplint.rule.where import WITH_HALF as WITH_HALF
    from amplint.rule.where import WITHIN_REGION as WITHIN_REGION
    from amplint.source.literals import literal as literal
    from amplint.source.source import Source as Source
    from amplint.util.walks import reachable as reachable
    from amplint.values.atoms import ACCELERATOR as ACCELERATOR
    from amplint.values.atoms import CPU as CPU
    from amplint.values.atoms import NONE as NONE
    from amplint.values.atoms import NUMBER_KINDS as NUMBER_KINDS
    from amplint.values.atoms import UNKNOWN as UNKNOWN
    from amplint.values.atoms import Atom as Atom
    from amplint.values.atoms import Autocast as Autocast
    from amplint.values.atoms import Class as Class
    from amplint.values.atoms import Device as Device
    from amplint.values.atoms import DType as DType
    from amplint.values.atoms import Evidence as Evidence
    from amplint.values.atoms import Function as Function
    from amplint.values.atoms import Heat as Heat
    from amplint.values.atoms import Host as Host
    from amplint.values.atoms import Instance as Instance
    from amplint.values.atoms import Mapping as Mapping
    from amplint.values.atoms import Method as Method
    from amplint.values.atoms import NoGrad as NoGrad
    from amplint.values.atoms import Object as Object
    from amplint.values.atoms import Reason as Reason
    from amplint.values.atoms import Region as Region
    from amplint.values.atoms import Sequence as Sequence
    from amplint.values.atoms import Shows as Shows
    from amplint.values.atoms import Symbol as Symbol
    from amplint.values.atoms import Tensor as Tensor
    from amplint.values.atoms import TensorTree as TensorTree
    from amplint.values.atoms import Unknown as Unknown
    from amplint.values.atoms import Value as Value
    from amplint.values.atoms import constant as constant
    from amplint.values.atoms import evidence_of as evidence_of
    from amplint.values.atoms import is_autocast as is_autocast
    from amplint.values.lattice import is_unknown as is_unknown
    from amplint.values.lattice import known as known
    from amplint.values.lattice import only as only
    from amplint.view.view import READ as READ
    from amplint.view.view import View as View
    from amplint_verify.observing.block import observe as observe
else:
    libcst = LazyModule("libcst")

    # Of types alone there is no such method: mypy would accept any name.
    def __getattr__(name: str) -> Any:
        if name not in _HOME:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(importlib.import_module(_HOME[name]), name)
