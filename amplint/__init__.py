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

from amplint.core.lazy import LazyModule

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
    "analyses.candidates": (
        "EVALUATED HOT IN_CAPTURE IN_REGION IN_WORKER MISUSED SOMEWHERE_HOT WITHIN_REGION WITH_HALF"
    ),
    "core.arithmetic": "OPERATORS computed",
    "core.candidate": "Candidates calls calls_of calls_with in_functions_with nodes where",
    "core.finding": "Cost Edit Finding Fix Group Related RuleName Safety",
    "core.lattice": "is_open is_unknown join_devices known only",
    "core.rule": "Change Differs Dtype Presumes Raises Rule Same Syncs Unrun Warns",
    "core.text": "in_long_lines",
    "core.values": (
        "ACCELERATOR CPU NONE NUMBER_KINDS UNKNOWN Atom Autocast Class DType Device Evidence "
        "Function Heat Host Instance Mapping Method NoGrad Object Reason Region Sequence Shows "
        "Symbol Tensor TensorTree Unknown Value constant evidence_of is_autocast"
    ),
    "core.walks": "least reachable",
    "inference.transfer": ("GRADIENT_NORMS canonical region_dtype tensors_in"),
    "core.violations": "Violation",
    "gradscaler.checker": "Misuse",
    "analyses.backward_reach": "BackpropagatedLosses BackpropagatedValues",
    "analyses.backward_support": "BackwardSupport Support",
    "analyses.captures": "Captured Captures",
    "analyses.cast_modules": "CastModules",
    "analyses.classes": "Classes",
    "analyses.counted_positions": "CountedPositions",
    "analyses.frequencies": "ComplexNumbers Frequencies",
    "analyses.grad_mode": "GradSurelyOn",
    "analyses.growing_fields": "KeptArguments LastingFields",
    "analyses.hotness": "EVALUATION OncePerEpoch TRAINING",
    "analyses.inferred": "Frameworks OutsideRegions PackedLengths ReadBack ReadByFramework",
    "analyses.loader_workers": "Workers",
    "analyses.loop_invariance": "ConstantTensors LoopInvariance",
    "analyses.host_built": "HostBuilt",
    "analyses.loss_terms": "LossTerms",
    "analyses.moved_later": "MovedLater",
    "analyses.own_layers": "GivenToLayer ReturnedByLayer",
    "analyses.provenance": (
        "BFloat16Parameters Choosers DistributedModules ReplicatedModules Sharded "
        "ShardedInFloat16 ShardedParameters StepsOfSharded UnpinnedMoves"
    ),
    "analyses.scaled_losses": "ReportedLosses",
    "analyses.tensor_certainty": "NotGuessed TensorCertainty",
    "analyses.tested": "AskedByCallers",
    "analyses.texts": "CalledTexts FunctionTexts ProjectText",
    "analyses.thin_readers": "HandedReads ReadsOfCallers",
    "analyses.thread_escape": "ThreadWork",
    "analyses.unknown_when_hot": "UnknownWhenHot",
    "cst.literals": "literal",
    "knowledge.dtypes": "FLOATS HALF",
    "observing.block": "observe",
    "source": "Source",
    "view.view": "READ View",
}
_HOME = {name: module for module, names in _EXPORTS.items() for name in names.split()}

if TYPE_CHECKING:
    import libcst as libcst

    from amplint.analyses.backward_reach import BackpropagatedLosses as BackpropagatedLosses
    from amplint.analyses.backward_reach import BackpropagatedValues as BackpropagatedValues
    from amplint.analyses.backward_support import BackwardSupport as BackwardSupport
    from amplint.analyses.backward_support import Support as Support
    from amplint.analyses.candidates import EVALUATED as EVALUATED
    from amplint.analyses.candidates import HOT as HOT
    from amplint.analyses.candidates import IN_CAPTURE as IN_CAPTURE
    from amplint.analyses.candidates import IN_REGION as IN_REGION
    from amplint.analyses.candidates import IN_WORKER as IN_WORKER
    from amplint.analyses.candidates import MISUSED as MISUSED
    from amplint.analyses.candidates import SOMEWHERE_HOT as SOMEWHERE_HOT
    from amplint.analyses.candidates import WITH_HALF as WITH_HALF
    from amplint.analyses.candidates import WITHIN_REGION as WITHIN_REGION
    from amplint.analyses.captures import Captured as Captured
    from amplint.analyses.captures import Captures as Captures
    from amplint.analyses.cast_modules import CastModules as CastModules
    from amplint.analyses.classes import Classes as Classes
    from amplint.analyses.counted_positions import CountedPositions as CountedPositions
    from amplint.analyses.frequencies import ComplexNumbers as ComplexNumbers
    from amplint.analyses.frequencies import Frequencies as Frequencies
    from amplint.analyses.grad_mode import GradSurelyOn as GradSurelyOn
    from amplint.analyses.growing_fields import KeptArguments as KeptArguments
    from amplint.analyses.growing_fields import LastingFields as LastingFields
    from amplint.analyses.host_built import HostBuilt as HostBuilt
    from amplint.analyses.hotness import EVALUATION as EVALUATION
    from amplint.analyses.hotness import TRAINING as TRAINING
    from amplint.analyses.hotness import OncePerEpoch as OncePerEpoch
    from amplint.analyses.inferred import Frameworks as Frameworks
    from amplint.analyses.inferred import OutsideRegions as OutsideRegions
    from amplint.analyses.inferred import PackedLengths as PackedLengths
    from amplint.analyses.inferred import ReadBack as ReadBack
    from amplint.analyses.inferred import ReadByFramework as ReadByFramework
    from amplint.analyses.loader_workers import Workers as Workers
    from amplint.analyses.loop_invariance import ConstantTensors as ConstantTensors
    from amplint.analyses.loop_invariance import LoopInvariance as LoopInvariance
    from amplint.analyses.loss_terms import LossTerms as LossTerms
    from amplint.analyses.moved_later import MovedLater as MovedLater
    from amplint.analyses.own_layers import GivenToLayer as GivenToLayer
    from amplint.analyses.own_layers import ReturnedByLayer as ReturnedByLayer
    from amplint.analyses.provenance import BFloat16Parameters as BFloat16Parameters
    from amplint.analyses.provenance import Choosers as Choosers
    from amplint.analyses.provenance import DistributedModules as DistributedModules
    from amplint.analyses.provenance import ReplicatedModules as ReplicatedModules
    from amplint.analyses.provenance import Sharded as Sharded
    from amplint.analyses.provenance import ShardedInFloat16 as ShardedInFloat16
    from amplint.analyses.provenance import ShardedParameters as ShardedParameters
    from amplint.analyses.provenance import StepsOfSharded as StepsOfSharded
    from amplint.analyses.provenance import UnpinnedMoves as UnpinnedMoves
    from amplint.analyses.scaled_losses import ReportedLosses as ReportedLosses
    from amplint.analyses.tensor_certainty import NotGuessed as NotGuessed
    from amplint.analyses.tensor_certainty import TensorCertainty as TensorCertainty
    from amplint.analyses.tested import AskedByCallers as AskedByCallers
    from amplint.analyses.texts import CalledTexts as CalledTexts
    from amplint.analyses.texts import FunctionTexts as FunctionTexts
    from amplint.analyses.texts import ProjectText as ProjectText
    from amplint.analyses.thin_readers import HandedReads as HandedReads
    from amplint.analyses.thin_readers import ReadsOfCallers as ReadsOfCallers
    from amplint.analyses.thread_escape import ThreadWork as ThreadWork
    from amplint.analyses.unknown_when_hot import UnknownWhenHot as UnknownWhenHot
    from amplint.core.arithmetic import OPERATORS as OPERATORS
    from amplint.core.arithmetic import computed as computed
    from amplint.core.candidate import Candidates as Candidates
    from amplint.core.candidate import calls as calls
    from amplint.core.candidate import calls_of as calls_of
    from amplint.core.candidate import calls_with as calls_with
    from amplint.core.candidate import in_functions_with as in_functions_with
    from amplint.core.candidate import nodes as nodes
    from amplint.core.candidate import where as where
    from amplint.core.finding import Cost as Cost
    from amplint.core.finding import Edit as Edit
    from amplint.core.finding import Finding as Finding
    from amplint.core.finding import Fix as Fix
    from amplint.core.finding import Group as Group
    from amplint.core.finding import Related as Related
    from amplint.core.finding import RuleName as RuleName
    from amplint.core.finding import Safety as Safety
    from amplint.core.lattice import is_open as is_open
    from amplint.core.lattice import is_unknown as is_unknown
    from amplint.core.lattice import join_devices as join_devices
    from amplint.core.lattice import known as known
    from amplint.core.lattice import only as only
    from amplint.core.rule import Change as Change
    from amplint.core.rule import Differs as Differs
    from amplint.core.rule import Dtype as Dtype
    from amplint.core.rule import Presumes as Presumes
    from amplint.core.rule import Raises as Raises
    from amplint.core.rule import Rule as Rule
    from amplint.core.rule import Same as Same
    from amplint.core.rule import Syncs as Syncs
    from amplint.core.rule import Unrun as Unrun
    from amplint.core.rule import Warns as Warns
    from amplint.core.text import in_long_lines as in_long_lines
    from amplint.core.values import ACCELERATOR as ACCELERATOR
    from amplint.core.values import CPU as CPU
    from amplint.core.values import NONE as NONE
    from amplint.core.values import NUMBER_KINDS as NUMBER_KINDS
    from amplint.core.values import UNKNOWN as UNKNOWN
    from amplint.core.values import Atom as Atom
    from amplint.core.values import Autocast as Autocast
    from amplint.core.values import Class as Class
    from amplint.core.values import Device as Device
    from amplint.core.values import DType as DType
    from amplint.core.values import Evidence as Evidence
    from amplint.core.values import Function as Function
    from amplint.core.values import Heat as Heat
    from amplint.core.values import Host as Host
    from amplint.core.values import Instance as Instance
    from amplint.core.values import Mapping as Mapping
    from amplint.core.values import Method as Method
    from amplint.core.values import NoGrad as NoGrad
    from amplint.core.values import Object as Object
    from amplint.core.values import Reason as Reason
    from amplint.core.values import Region as Region
    from amplint.core.values import Sequence as Sequence
    from amplint.core.values import Shows as Shows
    from amplint.core.values import Symbol as Symbol
    from amplint.core.values import Tensor as Tensor
    from amplint.core.values import TensorTree as TensorTree
    from amplint.core.values import Unknown as Unknown
    from amplint.core.values import Value as Value
    from amplint.core.values import constant as constant
    from amplint.core.values import evidence_of as evidence_of
    from amplint.core.values import is_autocast as is_autocast
    from amplint.core.violations import Violation as Violation
    from amplint.core.walks import least as least
    from amplint.core.walks import reachable as reachable
    from amplint.cst.literals import literal as literal
    from amplint.gradscaler.checker import Misuse as Misuse
    from amplint.inference.transfer import GRADIENT_NORMS as GRADIENT_NORMS
    from amplint.inference.transfer import canonical as canonical
    from amplint.inference.transfer import region_dtype as region_dtype
    from amplint.inference.transfer import tensors_in as tensors_in
    from amplint.knowledge.dtypes import FLOATS as FLOATS
    from amplint.knowledge.dtypes import HALF as HALF
    from amplint.observing.block import observe as observe
    from amplint.source import Source as Source
    from amplint.view.view import READ as READ
    from amplint.view.view import View as View
else:
    libcst = LazyModule("libcst")

    # Of types alone there is no such method: mypy would take any name for one that it gives.
    def __getattr__(name: str) -> Any:
        if name not in _HOME:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(importlib.import_module(f"amplint.{_HOME[name]}"), name)
