"""Values, call edges and autocast regions of a whole project, to a fixpoint.

inference, fixpoint, components   what is known, by its parts; how it is computed
state, slots, store, queue        the values of functions, and the keys by which they share them
project                           questions about all functions together: names, classes, texts
function                          one function as it is evaluated
transfer                          what the operations of libraries return
kept                              the same taken up again after an edit
explanation                       the evidence for what was found
"""

from amplint.inference.function.annotations import annotated
from amplint.inference.function.evaluation import Evaluation
from amplint.inference.inference import Inference
from amplint.inference.state import SiteId, State

__all__ = ["Evaluation", "Inference", "SiteId", "State", "annotated"]
