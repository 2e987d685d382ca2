"""The names that people choose, and what they say: each list and each pattern about user code.

What torch or another library calls its own things is in the other tables of this package. A name
that someone has chosen proves nothing, and is asked only where nothing else says what a thing is.
Each list has a notion that it belongs to, and no other module has one of its own
(`tests/unit/test_vocabulary.py`). A pattern that begins with `(^|_)` and ends with `(_|$)` is for
whole words of a name. Words without another source are those of the projects that
`benchmarks/packages.json` pins and of the labelled sets in `tests/accuracy`.
"""

from __future__ import annotations

import re

from amplint.knowledge.names import words_of
from amplint.util.lazy import lazy_pattern

# --------------------------------------------------------------------------- models

MODEL = lazy_pattern(r"(^|[._])(model|net|network|module)$")
"""A path that names a model. Ex) self.model, net, self.ddp_model; not `self.model.loss`"""

HAS_STATE = lazy_pattern(
    r"model|module|net|opt|sched|coder|head|backbone|ema|critic|actor|policy|generator"
    r"|discriminator|loss|criterion|metric|sampler|loader|layer|lora|embed|teacher|student",
    re.IGNORECASE,
)
"""What has a `state_dict` that is not a scaler's, where its name is all that is known."""

# --------------------------------------------------------------------------- kernels

EXTENSION = lazy_pattern(r"(^|\.)(_\w+|\w*_?cuda|\w+_ext|\w*_C)\.\w+$")
"""A function of a compiled extension. Ex) _kernels.run, ops_cuda.forward, my._C.run"""

# --------------------------------------------------------------------------- optimizers

OPTIMIZER = lazy_pattern(r"optim\w*$|(^|[._])opt(_\w+)?$", re.IGNORECASE)
"""A path that names an optimizer. Ex) optimizer, self.optim_g, optimizerG, opt, d_opt"""

# --------------------------------------------------------------------------- scalers

SCALER = lazy_pattern(r"scaler$", re.IGNORECASE)
"""A path that names a scaler. Ex) scaler, self.loss_scaler"""

SCALES_BY_HAND = lazy_pattern(
    r"scal(er|ing)|(loss|grad)_?scale|scale_?(loss|grad)|\bscale\(|fp16_optimizer"
    r"|\b(apex|colossalai|fairscale)\b",
    re.IGNORECASE,
)
"""Text of somebody who scales the loss, by hand or by a library."""

KNOWS_THE_SCALE = ("get_scale", "inv_scale", "loss_scale", "cur_scale", "._scale")
"""Text of somebody who divides by the scale."""

NAMES_THE_SCALE = lazy_pattern(
    r"(amp|cur|current|get|grad|inv|inverse|loss)_scale$|^_scale$|unscaled"
)
"""An identifier of somebody who divides by the scale; not loss_scaler, which is the scaler, nor
init_scale."""

REDUCES = lazy_pattern(r"all_?reduce|average_(grad|model|param|tensor)|averager", re.IGNORECASE)
"""An identifier of somebody who reduces gradients, or averages models, over processes by hand."""

SCALER_STATE = (
    r"([Ss]cal\w*|SCAL\w*|[Aa]mp|AMP)\b[^#\n]*\.state_dict|\.state_dict[^#\n]*([Ss]caler|SCALER)"
    r"|[\"']\w*([Ss]caler|SCALER)\w*[\"'] *(:|\] *=[^=])"
    r"|(getattr|hasattr|methodcaller)\([^#\n]*[\"']state_dict[\"']"
    r"|(save|dump)\w*\([^#\n]*\b(locals|globals)\("
)
"""Lines that speak of a scaler in a checkpoint, or of the states of whatever there is."""

SCALER_STATE_WORDS = ("state_dict", "caler", "CALER", "locals", "globals")
"""One of them is in each such line."""

# --------------------------------------------------------------------------- losses

COMPUTES_LOSS = lazy_pattern(r"(^|_)loss(es)?($|_)")
"""A function that computes a loss. Ex) `loss` of a detection head, `compute_loss`, `loss_by_feat`,
`focal_loss`; not `lossless`"""

NO_LOSS = lazy_pattern(r"_|(plot|log|print|save|load|show|draw|write|record|test|val|eval)[a-z]*_")
"""The beginning of one that does something with a loss, or elsewhere. Ex) plot_loss, eval_loss"""

LOSS_CLASS = lazy_pattern(r"Loss|Criterion")
"""A class that computes a loss."""

WEIGHT = lazy_pattern(
    r"(^|_)(coefs?|coeffs?|coefficients?|weights?|weightings?|lambdas?|lambd|lam|alpha|beta|gamma"
    r"|factors?|ratio|strength)(_|\d|$)|^w(_|\d|$)"
)
"""What the terms of a loss are weighted with."""

COUNT = lazy_pattern(r"(^|_)(denom\w*|normali[sz]er|(n|num)_?(tokens|samples|items)|sample_size)$")
"""What a loss was averaged over."""

# --------------------------------------------------------------------------- training

PLACES_OF_BATCHES = frozenset({"batch_idx", "batch_nb", "optimizer_idx", "dataloader_idx"})
"""Numbers that a training step is given besides its batch."""

TRAINING_METHODS = frozenset({"forward", "training_step"})
"""The methods of a module that run for every batch of training."""

TRAINING_STEPS = frozenset({"training_step", "train_step", "train_batch", "train_on_batch"})
"""What an engine out of sight runs for every batch, of classes that need not be modules."""

CALLED_FROM_OUTSIDE = TRAINING_METHODS | TRAINING_STEPS | {"compute_loss", "get_loss", "loss"}
"""The methods that a user, or an engine out of sight, calls for every batch of training."""

GIVEN_ACTIVATIONS = (CALLED_FROM_OUTSIDE - TRAINING_STEPS) | {"message"}
"""Those of them that are given what other modules have computed, and not a batch as it was loaded;
`message` is what PyTorch Geometric has each layer of a graph network compute."""

TRAINS = frozenset({"backward", "zero_grad"})
"""Words of a function that trains, and is a program's: nobody calls it in a region."""

METRIC_METHODS = frozenset({"update", "compute"})
"""The methods of a metric, which its user calls in a step of training or validation."""

TRAINING_WORDS = frozenset({"train", "training"})
"""Modes, phases and splits that train, as they are written."""

TRAINING_FLAG = lazy_pattern(r"_?(is_|in_|do_)?(train|training)(_mode|_phase)?", re.IGNORECASE)
"""A flag that says "training"."""

HOW_TO_TRAIN = lazy_pattern(
    r"(^|_)(amp|fp16|bf16|half|float16|bfloat16|mixed|precision|autocast|apex|train|training|"
    r"distributed|ddp|fsdp|dist|parallel|gpu|cuda|accum\w*)(_|$)",
    re.IGNORECASE,
)
"""A flag that chooses how to train, or on what: it is for users to set, whatever its default is."""

PRECISION = lazy_pattern(
    r"fp16|bf16|fp32|half|float16|float32|autocast|precision|dtype|(^|[._])amp($|[._])",
    re.IGNORECASE,
)
"""What names a dtype, or a flag that chooses one, by a part of it."""

STEPS_OF_TRAINING: tuple[frozenset[str], ...] = (
    frozenset({"step", "zero_grad"}),
    frozenset({"step", "backward"}),
    frozenset({"step", "scale", "update"}),
    frozenset({"step", "scale", "unscale"}),
)
"""The methods of a class whose `step` is one of training: an optimizer's, or that of what wraps one
(fairscale's OSS, DeepSpeed's FP16_Optimizer), an engine's, a scaler's."""

KEEPS_SMALL_STEPS = lazy_pattern(
    r"mp_policy|(?i:stochastic_?round|master_?(weight|param|grad|cop)|kahan|fp32_?(param|weight|cop))"
)
"""Text of a way to keep the steps that a 16-bit parameter rounds away: a float32 copy of it, as
FSDP2 has with an `mp_policy`, or rounding at random."""

ASKS_SHARDED = lazy_pattern(
    r"fsdp|shard|clip_grad_norm|isinstance|distributed|parallel|strategy",
    re.IGNORECASE,
)
"""Text of a test whether a module is sharded, or clips gradients itself."""

CLIPS_GRADIENTS = frozenset(
    {"clip_grad_norm", "clip_grad_norm_", "clip_gradients", "clip_grads", "clip_grad_value_"}
)
"""Functions, the project's or a library's, that training calls between backward pass and step."""

CLIPPING_OPTION = lazy_pattern(r"clip|norm", re.IGNORECASE)
"""An option that says whether, or how far, gradients are clipped. Ex) max_grad_norm, clip_value"""

TAKES_GRADIENTS = frozenset({"manual_backward", "clip_gradients", "clip_grad_norm_", "backward"})
"""Methods whose name says that gradients change hands, when nobody knows whose they are."""

HOOK = lazy_pattern(r"hook|callback|event|fire|trigger|dispatch|^on_|^before_|^after_")
"""An unknown function that runs between the parts of a step, and may do one."""

PART_OF_STEP = lazy_pattern(r"backward|optim|grad|scal|train")
"""An unknown function that does a part of a step."""

# --------------------------------------------------------------------------- evaluation

EVALUATION_METHODS = words_of(
    "validation_step test_step predict_step eval_step forward_test simple_test aug_test"
)
"""What an engine out of sight runs for every batch of evaluation; the last three are of mmdet and
its kin, whose `forward` calls them where it is not called for a loss."""

EVALUATION_WORDS = words_of(
    """
    predict prediction infer inference test testing eval evaluate evaluation
    dev val valid validate validation
    """
)
"""Modes, phases and splits that train nothing, as they are written."""

_OF_FLAGS = sorted(EVALUATION_WORDS - words_of("test dev val valid validate validation"))
EVALUATION_FLAG = lazy_pattern(
    rf"_?(is_|in_|do_)?({'|'.join(_OF_FLAGS)})(_mode|_phase)?", re.IGNORECASE
)
"""A flag that says "evaluation"; not `test` and `valid`, which are said of other things, too."""

EVALUATION_CONTEXT = lazy_pattern(r"(^|_)eval(uat\w*)?(_|$)")
"""A context in which a model is in evaluation. Ex) with eval_mode(model)"""

_OF_FUNCTIONS = sorted(EVALUATION_WORDS - words_of("test testing dev val valid") | {"generate"})
EVALUATES = lazy_pattern(rf"^_*({'|'.join(_OF_FUNCTIONS)})(_|$)")
"""A function that uses what has been trained; not a test of the code."""

EVALUATOR = lazy_pattern(r"Infer|Predict|Pipeline|Eval|Valid")
"""A class whose methods do."""

GENERATES = lazy_pattern(r"(^|_)(generate|sample|sampling|synthesi[sz]e)(_|$)")
"""A function that makes something new of what was learnt, rather than learning."""

ABOUT_GRADIENTS = lazy_pattern(
    r"grad|backward|inference_mode|attribut|salien|attack|advers", re.IGNORECASE
)
"""Text of an evaluation with gradients, which attributions and attacks use, or that switches them
off by hand."""

# --------------------------------------------------------------------------- loaders

LOADER = lazy_pattern(r"loader(_(train|val|valid|eval|test|dev)\w*)?$|(^|_)dl$")
"""A name of a loader. Ex) data_loader, self.val_loader, testloader, loader_eval, valid_dl; not
loader_args, loaders"""

SPEAKS_OF_LOADERS = lazy_pattern(r"loaders?(_|$)|(^|_)dl$", re.IGNORECASE)
"""A word of code that has to do with loaders. Ex) DataLoader, train_loader, get_dataloaders"""

PREPARES_ITEMS = ("__getitem__", "collate")
"""In the names of functions that prepare the items of a batch, mostly in a worker of a loader."""

# --------------------------------------------------------------------------- what runs rarely

COLD_FUNCTIONS = words_of(
    """
    __init__ __new__ __getitem__ __len__ __repr__ __str__ __getstate__ __setstate__ __del__
    __post_init__ setup prepare_data configure_optimizers state_dict load_state_dict extra_repr
    reset_parameters collate collate_fn save
    prepare_model prepare_data_loader export merge unmerge
    """
)
"""Functions that run once, on the host, or when something is saved."""

COLD_WITHOUT_ARGUMENTS = frozenset({"compute", "prepare"})
"""What is so without arguments: a metric computes from what its updates have gathered, where a
reward or a loss computes from a batch."""

SETUP = ("setup_", "initialize", "initialise")
"""The beginnings of such functions. Ex) setup_from_indices, when what it sets up has changed;
initialize_weights"""

MAKES_LASTING = ("def __init__", "def reset", "def setup", "def build")
"""The beginning of a function that makes what lives as long as the object."""

_OF_CHECKPOINT = r"(_?(check_?point|ckpt|state|training_state))?$"
SAVES_CHECKPOINT = lazy_pattern(rf"(save|write|dump){_OF_CHECKPOINT}", re.IGNORECASE)
LOADS_CHECKPOINT = lazy_pattern(rf"(load|restore|resume){_OF_CHECKPOINT}", re.IGNORECASE)
"""Functions of libraries that save, or load, what they are handed."""

COUNTS_TRAINING = frozenset("epoch epochs step steps global_step iteration iter".split())
"""Entries of a checkpoint that say how far the training is."""

HANDLES_CHECKPOINTS = lazy_pattern(
    r"(save|load|write|commit|resume|restore|export)_(\w+_)?(checkpoint|ckpt|snapshot)s?$"
)
"""Ex) load_checkpoint, _commit_decoupled_checkpoint; not checkpoint_forward"""

LOADS_STATE = lazy_pattern(r"(^|_)(load|convert|cvt|adapt|remap|rename)_(\w+_)?state_dict")
"""Ex) load_state_dict, _load_from_state_dict, _load_state_dict_hook, cvt_state_dict_moco"""

MEMOISES = lazy_pattern(r"(^|[_.])cached?(_|$)")
"""A decorator that keeps results. Ex) functools.lru_cache, functools.cached_property, cached,
lru_cache_unless_export"""

DONE_ONCE = lazy_pattern(r"(^|_)(initiali[sz]ed|inited)$")
"""A flag that says that what is done once has been done."""

COUNTER = lazy_pattern(
    r"(^|_)(i|j|it|iter|iters|iteration|iterations|step|steps|epoch|batch|idx|index|count|counter|n|num|update|updates)(_|$)"
)
"""What counts iterations."""

TEST_PATH = lazy_pattern(r"(^|/)(tests?|testing)/|(^|/)(test_[^/]*|[^/]*_test|conftest)\.py$")
"""The path of a file of tests."""

SHOWING_PATH = lazy_pattern(r"(^|/)(examples?|demos?|tutorials?|benchmarks?|docs?)/")
"""The path of a file that shows how a library is used, or how fast it is."""

EVALUATION_PATH = lazy_pattern(r"(^|/)(evals?|evaluate|evaluations?|evaluators?)/")
"""The path of a file of an evaluation, with the networks that it judges others by."""

EXPORT_PATH = lazy_pattern(r"(^|[/_])(onnx|export)(_[^/]*)?\.py$")
"""The path of a file that exports a network, or holds one as it is exported."""

# --------------------------------------------------------------------------- output and checks

OUTPUT_FLAG = lazy_pattern(
    r"(^|_)(verbose|debug|log|logging|logger|print|printing|plot|vis|visuali[sz]e|profil\w*|"
    r"summary|dump|isEnabledFor|tensorboard|wandb|writer|display|sanity|dry|progress|report|monitor)(_|$)|should_|is_last|_(freq|every|interval)$",
    re.IGNORECASE,
)
"""A flag that is a wish of the user for output, and off most of the time."""

INTERVAL = lazy_pattern(r"(^|_)every_(n|k|\d+)_")
"""A question whether an interval is over: `hook.every_n_train_iters(runner, 50)` (mmengine's Hook),
`every_n_steps(step)`."""

WARNINGS = frozenset({"warn", "warning", "error", "exception", "critical", "warning_once"})
"""Methods of a logger that report what is wrong."""

REPORTS = WARNINGS | {"print", "info", "debug"}
"""Functions that do nothing but report."""

CHECK = lazy_pattern(r"(^|_)(check|assert|require|expect)", re.IGNORECASE)
"""A function that looks whether all is right, and raises."""

ASKS_NO_VALUE = lazy_pattern(
    r"finite|isinf|isnan|(^|_|\.)(inf|nan)s?(_|$)|backward|autograd"
    r"|(^|\.)(bool|getattr|hasattr|id|is_tensor|isinstance|len|type)$"
)
"""Names of functions for which it does not matter by what a number is multiplied.

Ex) torch.isnan, math.isfinite, isinstance; accelerator.backward, which takes the loss"""

INFINITIES = lazy_pattern(r"finite|overflow|isinf|isnan|(^|_)(inf|nan)s?(_|$)")
"""Words that speak of infinite gradients. Ex) isfinite, error_if_nonfinite, has_overflow,
found_inf, _found_inf_per_device, nan_to_num"""

UNSCALES = lazy_pattern(rf"scale|{INFINITIES.pattern}")
"""Words of an optimizer that does a part of a scaler's work."""

NUMERIC_CHECK = lazy_pattern(rf"anomaly|{INFINITIES.pattern}")
"""A flag for a check of the numbers."""

SEARCHES_NAN = lazy_pattern(r"debug|anomal|nan|test", re.IGNORECASE)
"""Classes and functions that look for a NaN."""

# --------------------------------------------------------------------------- measurements

MEASURES = lazy_pattern(r"bench|profil|timer|timing|stopwatch", re.IGNORECASE)
"""Files, classes and functions whose purpose is to measure."""

TIMES_THE_HOST = lazy_pattern(
    r"launch|dispatch|overhead|queue|host|cpu|compil|warm|load", re.IGNORECASE
)
"""Text of code that times the launch, or what runs on the host."""

WISHES_SYNCHRONIZATION = lazy_pattern(rf"sync|debug|{MEASURES.pattern}", re.IGNORECASE)
"""A test that says that waiting for the device is meant."""

WISHES_EMPTY_CACHE = lazy_pattern(r"empty|cache|clear|free|mem|oom|gc|debug|offload", re.IGNORECASE)
"""A test that says that freeing memory is meant."""

# --------------------------------------------------------------------------- devices

DEVICE_NAME = lazy_pattern(r"(.*device|dev|(.*_)?gpu|gpu_id|cuda|(local_)?rank)$")
"""A device, as people write it in arguments of `.to(...)`."""

RARE_DEVICES = frozenset({"mps", "npu", "xpu", "hpu", "mlu", "musa", "xla", "tpu"})
"""What is done on these alone is a way around what they lack."""

OTHER_ACCELERATORS = frozenset({"mps", "npu", "xpu", "hpu"})
"""Types of devices with an autocast of their own, on which a region of CUDA does nothing
(torch/amp/autocast_mode.py, torch 2.13; npu: torch_npu)."""

NUMBERED_DEVICE = lazy_pattern(rf"(cuda|{'|'.join(sorted(OTHER_ACCELERATORS))}):(%|\{{|$)")
"""The beginning of a text that names a device and goes on with its number: f"cuda:{rank}",
"cuda:%d" % rank, "cuda:{}".format(rank), "cuda:" + str(rank)."""

REDIRECTS_CUDA = ("transfer_to_npu", "gpu_migration")
"""What lets the names of CUDA mean another device (torch_npu.contrib, habana_frameworks.torch)."""

OF_RARE_DEVICES = frozenset(f"is_{device}" for device in RARE_DEVICES)
"""Flags that say so."""

OF_RARE_DEVICE = lazy_pattern(rf"(^|_)({'|'.join(sorted(RARE_DEVICES))})(_|$)")
"""A name with one of them."""

OF_DEVICES = words_of(
    """
    cuda device devices gpu gpus xpu mps npu hpu get_accelerator Accelerator accelerator Fabric
    fabric set_default_device set_default_tensor_type prepare DataParallel DistributedDataParallel
    """
)
"""A file that moves anything to a device, or has a library do so, says one of these."""

MOVES_TENSORS = r"\.(?:to|cpu)\(", (".to(", ".cpu(")
"""Text of a move that need not name a device, and the parts of which one stands in such a line."""

ASKS_DEVICE = lazy_pattern(r"cuda|gpu|device|is_available", re.IGNORECASE)
"""Text of a test of the device."""

ASKS_DEVICE_OR_AMP = lazy_pattern(
    rf"{ASKS_DEVICE.pattern}|{'|'.join(sorted(RARE_DEVICES))}|accelerator|darwin|platform"
    r"|amp(\b|_)|autocast|fp16|float16|half|mixed|precision",
    re.IGNORECASE,
)
"""Text of a test of the device, or of a flag that switches AMP off where it does nothing."""

SWITCHES_AMP_ON = lazy_pattern(
    r"^([\w.]+\.)?((use_|enable_|with_)?(amp|mixed_precision)|(use|enable)_autocast)$"
)
"""A flag for mixed precision. One for fp16 is none: it may cast the module."""

ASKS_NO_DTYPE = lazy_pattern(r"[\"'](cpu|cuda|__main__)\b")
"""Text of a test of the device, or of whether a file is run as a script."""

ASKS_DEVICE_OF_WORKER = lazy_pattern(r"cuda|gpu|device|worker", re.IGNORECASE)
"""Text of a test whether a worker of a loader may use a device."""

ABOUT_STORAGE = lazy_pattern(r"storage", re.IGNORECASE)
"""Text of what is made of the memory of a tensor."""

# --------------------------------------------------------------------------- precision

# The arguments of a call up to some of them, over lines and through brackets in brackets.
ARGUMENTS = r"(?:[^()]|\((?:[^()]|\([^()]*\))*\))*?"
# Ex) False, enabled=False, enabled = False
OFF = rf"(?:\s*False\b|{ARGUMENTS}\benabled\s*=\s*False\b)"

# What is written where a project trains under autocast, the plainest first, by a part of it. That
# part is looked for before the pattern, since an editor asks again after each edit: over timm
# 0.9.16 it takes 5 ms instead of 127.
TRAINS_UNDER_AUTOCAST = {
    "autocast(": lazy_pattern(rf"\bautocast\((?!{OFF})"),
    "GradScaler(": lazy_pattern(rf"\bGradScaler\((?!{OFF})"),
    "--": lazy_pattern(r"[\"']--(?:use[-_])?(?:amp|mixed[-_]precision)[\"']"),
}
"""A sign that a project trains under autocast. A flag `--fp16` is none: it may cast the module."""

# A scaler is for float16 alone (documentation of torch.amp, "Gradient Scaling").
TRAINS_IN_FLOAT16 = {
    "GradScaler(": lazy_pattern(rf"\bGradScaler\((?!{OFF})"),
    "fp16": lazy_pattern(r"\bfp16\b"),
}
"""A sign that it does so in float16."""

SPEAKS_OF_BFLOAT16 = ("bfloat16", "bf16")
"""A sign that it need not be float16."""

SPEAKS_OF_FLOAT16 = lazy_pattern(r"(?<!b)(float16|fp16)|\.half\(|GradScaler")
"""A sign that it may be."""

OPENS_FLOAT16 = {"autocast(": lazy_pattern(rf"\bautocast\({ARGUMENTS}\bfloat16\b")}
"""A region of float16, which says the same where no other half dtype is spoken of."""

IDLE_SCALER = lazy_pattern(rf"\bGradScaler\((?:{OFF}|{ARGUMENTS}[\"']cpu\b)")
"""A scaler for the CPU, or one that is switched off.
Ex) GradScaler("cpu"), GradScaler(device="cpu", enabled=True), GradScaler(enabled=False)"""

WHOLE_NUMBERS = (
    r"\w*masks?|\w*labels?|targets?|gts?|truths?|ids?|idx\w*|ind(ex|exes|ices|s)?|lengths?|lens?"
    r"|sizes?|shapes?|steps?|timesteps?|t|ts|pos|positions?|tokens?|edge|batch|batches|flags?|actions?"
    r"|size_average"
)

NO_FLOATS = lazy_pattern(rf"(^|_)({WHOLE_NUMBERS})(_|$|\d)", re.IGNORECASE)
"""Data, as people call it, that is whole numbers mostly. Ex) attn_mask, gt_labels, x_lengths"""

NO_ACTIVATION = lazy_pattern(
    rf"(^|_)({WHOLE_NUMBERS}|weights?|factor|anchors?|b?boxes|b?box|priors?|proposals?|rois?|coords?"
    r"|coordinates|xyz|points?|rays|sigmas?|images?|imgs?|pixel\w*|audios?|wavs?|waveforms?|videos?"
    r"|frames|noise|freqs\w*|cos|sin|cache\w*|y|rewards?)(_|$|\d)",
    re.IGNORECASE,
)
"""Data, as people call it, that is no activation: it is float32 under autocast, or no float at all.
Ex) attn_mask, gt_labels, input_ids, edge_weight, pixel_values, x_lengths"""

# --------------------------------------------------------------------------- settings and versions

CONFIGURATION = lazy_pattern(
    r"(^|_)(args|config|configuration|cfg|conf|hparams|hyperparameters|opts?|options)$"
)
"""What holds the settings of a program."""

READS_ARGUMENTS = lazy_pattern(
    r"argparse|jsonargparse|ArgumentParser|HfArgumentParser|argv|click|docopt|fire|hydra|typer|tyro"
    r"|absl|OmegaConf|(parse|get|init|make|load|read)_\w*(args?|arguments|opts?|options|config|cfg)"
)
"""What reads a command line, or a configuration: the libraries that do, and functions named after
it."""

ASKS_VERSION = lazy_pattern(r"version|hasattr\(|getattr\(|\bparse\(|torch\w*\d", re.IGNORECASE)
"""Text of a test of the version, or of whether a name is there.
Ex) torch.__version__ >= "2.4", hasattr(torch.amp, "GradScaler"), TORCH_GE_2_4, is_torch_2_4"""

ASKS_TORCH = lazy_pattern(
    r"__version__|\bversion\.|torch_?version|((get|has)attr|\bdir)\(\s*torch|torch\w*(\d|\(\s*[\"'\d])",
    re.IGNORECASE,
)
"""Text of a test of the version of torch, or of whether torch has a name, for use where more than
the code under the test depends on it: `getattr(args, "amp")` asks torch for nothing."""

HANDLES_OLD = lazy_pattern(
    r"^[ \t]*except\b[^\n]*:\s*\n\s*(from|import) torch\.(cuda|cpu)\.amp\b"
    r"|^[ \t]*(el)?if\b[^\n]*(torch\.__version__|TORCH_VERSION)[^\n]*:[ \t]*(#[^\n]*)?\n"
    r"(?!\s*raise\b)"
    r"|^[ \t]*[\w.]+[ \t]*=[^\n]*\btorch\.__version__[^\n]*[<>]"
    r"|^[ \t]*[\w.]+[ \t]*=[^\n]*[<>]=?[^\n]*\btorch\.__version__"
    r"|^[^\n#]*\bhasattr\(torch\.(cuda\.)?amp\b",
    re.MULTILINE,
)
"""Code that does its work another way on an old torch: a test of the version, unless an error
follows, or an import that an old name stands in for."""

ASKS_FOR_CAPTURE = lazy_pattern(
    r"^_?is_(\w+_)?(compil|dynamo|export|onnx|tracing|scripting|captur|fake)\w*|^_get_tracing_state$"
)
"""A function, or a flag, that says whether something is being captured in a graph.
Ex) torch.compiler.is_compiling(), is_torchdynamo_compiling(), is_current_stream_capturing()"""

ASKS_WHAT_IS_THERE = lazy_pattern(
    r"version|attr$|available|find_spec|modules|torch\w*\d", re.IGNORECASE
)
"""Words of a test that asks for what there is, so that another import might change its meaning."""

# --------------------------------------------------------------------------- classes

COMMON_METHODS = words_of(
    """
    forward train eval step update reset compute fit predict run call apply to cuda cpu get set
    add append extend items values keys pop copy close open write read log parameters
    state_dict load_state_dict backward zero_grad sum mean max min view size sample
    """
)
"""Too many things have methods of these names: `sample` is one of a replay buffer, a distribution,
a model, and of `random`."""
