"""The names that amplint's own rules use besides: these change without notice."""

# ruff: noqa: PLC0414 - what is imported under its own name is offered, to checkers of types too

from amplint.analyses.backward_reach import BackpropagatedLosses as BackpropagatedLosses
from amplint.analyses.hotness import EVALUATION as EVALUATION
from amplint.analyses.hotness import TRAINING as TRAINING
from amplint.analyses.tensor_certainty import NotGuessed as NotGuessed
from amplint.analyses.tensor_certainty import TensorCertainty as TensorCertainty
from amplint.facts.code_texts import CalledTexts as CalledTexts
from amplint.facts.code_texts import FunctionTexts as FunctionTexts
from amplint.facts.code_texts import ProjectText as ProjectText
from amplint.facts.project_classes import Classes as Classes
from amplint.findings.finding import RuleName as RuleName
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
from amplint.rule.conditions import calls_of as calls_of
from amplint.rule.conditions import in_functions_with as in_functions_with
from amplint.rule.where import MISUSED as MISUSED
from amplint.source.literals import literal as literal
from amplint.util.walks import reachable as reachable
from amplint.values.atoms import Atom as Atom
from amplint.values.atoms import Class as Class
from amplint.values.atoms import Function as Function
from amplint.values.atoms import Instance as Instance
from amplint.values.atoms import Mapping as Mapping
from amplint.values.atoms import Method as Method
from amplint.values.atoms import NoGrad as NoGrad
from amplint.values.atoms import Reason as Reason
from amplint.values.atoms import Sequence as Sequence
from amplint.values.atoms import Shows as Shows
from amplint.values.atoms import TensorTree as TensorTree
from amplint.values.atoms import evidence_of as evidence_of
