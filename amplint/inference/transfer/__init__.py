"""The one engine of inference: what an operation of a library returns, from what its operands are.

Everything here is a pure function of values. Functions and classes of the project are `infer`'s
business; here a call is one of torch, of the builtins or of another library that amplint knows.
The parts, each of which uses only those before it: kinds, symbols, promotion, arguments, results,
containers, then arithmetic, attributes, factories, modules, methods, and calls over them all.
"""

from amplint.inference.transfer.arguments import chosen_types as chosen_types
from amplint.inference.transfer.arguments import dtype_of as dtype_of
from amplint.inference.transfer.arguments import names_dtype as names_dtype
from amplint.inference.transfer.arguments import text_begun as text_begun
from amplint.inference.transfer.arithmetic import augmented as augmented
from amplint.inference.transfer.arithmetic import binary as binary
from amplint.inference.transfer.arithmetic import compare as compare
from amplint.inference.transfer.arithmetic import unary as unary
from amplint.inference.transfer.arithmetic import used_as_tensor as used_as_tensor
from amplint.inference.transfer.arithmetic import without_nests as without_nests
from amplint.inference.transfer.attributes import PARAM_GROUPS as PARAM_GROUPS
from amplint.inference.transfer.attributes import attribute as attribute
from amplint.inference.transfer.attributes import having as having
from amplint.inference.transfer.attributes import object_attribute as object_attribute
from amplint.inference.transfer.calls import SOME_ACCELERATOR as SOME_ACCELERATOR
from amplint.inference.transfer.calls import autocast as autocast
from amplint.inference.transfer.calls import call as call
from amplint.inference.transfer.calls import host_memory as host_memory
from amplint.inference.transfer.calls import precision_asked as precision_asked
from amplint.inference.transfer.calls import with_options as with_options
from amplint.inference.transfer.containers import add as add
from amplint.inference.transfer.containers import collating as collating
from amplint.inference.transfer.containers import is_loader as is_loader
from amplint.inference.transfer.containers import iterate as iterate
from amplint.inference.transfer.containers import iterate_atom as iterate_atom
from amplint.inference.transfer.containers import put as put
from amplint.inference.transfer.containers import subscript_atom as subscript_atom
from amplint.inference.transfer.containers import unpack as unpack
from amplint.inference.transfer.kinds import OBJECT as OBJECT
from amplint.inference.transfer.kinds import Site as Site
from amplint.inference.transfer.modules import output_device as output_device
from amplint.inference.transfer.promotion import as_float32 as as_float32
from amplint.inference.transfer.promotion import floats_as as floats_as
from amplint.inference.transfer.promotion import region_dtype as region_dtype
from amplint.inference.transfer.promotion import tensors_in as tensors_in
from amplint.inference.transfer.promotion import without_half as without_half
from amplint.inference.transfer.symbols import canonical as canonical
from amplint.inference.transfer.symbols import symbol_attribute as symbol_attribute
