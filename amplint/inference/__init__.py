"""Values, call edges and autocast regions of a whole project, to a fixpoint.

state, annotations, narrowing       small parts that the others use
store, bindings, hierarchy, project keys; names; classes; uses: the layers of `Inference`
fixpoint                            `Inference` itself: who is evaluated, and when again
frame, calls, evaluation            one function: its regions; calls; every other operation
"""

from amplint.inference.annotations import annotated
from amplint.inference.evaluation import Evaluation
from amplint.inference.inference import Inference
from amplint.inference.state import SiteId, State

__all__ = ["Evaluation", "Inference", "SiteId", "State", "annotated"]
