"""The questions that a rule asked about a line, with their answers, in sentences."""

from __future__ import annotations

from amplint.output.values_in_words import Where, placed, shortened, value_in_words
from amplint.run.inspection import AskedQuestion
from amplint.values.atoms import Evidence, Heat

LONGEST = 200  # of a sentence
LONGEST_CODE = 60  # of the code in it
NOT_HOT = "not seen to run once per batch"
UNKNOWN = "unknown"


# By the name of a fact: what is said where nothing is known or it does not hold, and where it
# holds. `{it}` is the code that was asked about.
SENTENCES: dict[str, tuple[str, str]] = {
    "AskedByCallers": (
        "no test stands around the calls that are seen to run this",
        "tests stand around the calls that run this",
    ),
    "BFloat16Parameters": (
        "{it} is not seen to be a bfloat16 parameter",
        "{it} is a bfloat16 parameter",
    ),
    "BackpropagatedLosses": (
        "{it} is not seen to be what `backward()` is called on",
        "`backward()` is called on {it}",
    ),
    "BackpropagatedValues": (
        "{it} is not seen to go through a backward pass",
        "{it} goes through a backward pass",
    ),
    "BackwardCalls": ("{it} runs no `backward()` that is seen", "{it} runs `backward()`"),
    "BackwardSupport": (
        "nothing is known of the forward pass behind {it}",
        "the forward pass behind {it} is known",
    ),
    "CalledTexts": (
        "{it} calls no function of the project",
        "the functions that {it} calls were read",
    ),
    "Captures": ("nothing is seen to capture {it} in a graph", "{it} is captured in a graph"),
    "CastCache": (
        "no weights are changed inside of the region",
        "weights are changed inside of the region",
    ),
    "CastModules": ("the module is not seen to be cast to half", "the module is cast to half"),
    "Classes": (
        "no library class is known that this derives from",
        "the class that this belongs to is no reason to report it",
    ),
    "ConstantTensors": (
        "{it} is not known to be the same in every iteration",
        "{it} is the same in every iteration",
    ),
    "CountedPositions": (
        "the numbers of {it} are not known to be counted",
        "the numbers of {it} are counted",
    ),
    "DistributedModules": (
        "{it} is not seen to be a DistributedDataParallel module",
        "{it} may be a DistributedDataParallel module",
    ),
    "Frameworks": ("no framework is known to do this", "a framework does this"),
    "FunctionTexts": (
        "the function around is not known",
        "the text of the function around was read",
    ),
    "GivenToLayer": (
        "{it} is not seen to pass its input to a layer as it is",
        "{it} passes its input to a layer as it is",
    ),
    "GradSurelyOn": ("it is not certain that gradients are on here", "gradients are on here"),
    "HandedReads": (
        "no function is seen to read on the host what {it} hands it",
        "a function reads on the host what {it} hands it",
    ),
    "HostBuilt": ("nothing shows that {it} is built on the host", "{it} is built on the host"),
    "Hotness": ("{it} is " + NOT_HOT, "{it} runs once per batch"),
    "LoopInvariance": (
        "{it} is not known to be the same in every iteration",
        "{it} is the same in every iteration",
    ),
    "LossTerms": ("{it} is not seen to be a part of a loss", "{it} is a part of a loss"),
    "LostGradients": (
        "no later pass is seen to lose its gradients because of {it}",
        "a later pass loses its gradients because of {it}",
    ),
    "NeverGiven": (
        "calls may run this",
        "no call is seen to give the argument that would run this",
    ),
    "NotGuessed": ("that {it} is a tensor is a guess", "{it} is a tensor"),
    "OncePerEpoch": ("{it} is not seen to run only once an epoch", "{it} runs once an epoch"),
    "OutsideRegions": (
        "an autocast region may be around {it}",
        "no autocast region is around {it}",
    ),
    "OverwrittenWeights": (
        "no module that runs in the region is seen to be overwritten there",
        "a module that runs in the region is overwritten there",
    ),
    "PackedLengths": (
        "{it} is not known to be the lengths of packed sequences",
        "{it} is the lengths of packed sequences, which have to be on the CPU",
    ),
    "ProjectText": ("no file of the project says {it}", "a file of the project says {it}"),
    "ReadBack": (
        "no framework reads what this function returns",
        "a framework reads what this function returns",
    ),
    "ReadByFramework": (
        "no framework is known to bring to the host what {it} is given",
        "a framework brings to the host what {it} is given",
    ),
    "ReadsOfCallers": (
        "this function does more than read what it is given, or no hot call is seen to run it",
        "this function only reads what hot calls give it",
    ),
    "Regions": ("{it} is in no autocast region that is known", "{it} is in an autocast region"),
    "ReplicatedModules": (
        "{it} is not seen to be a DataParallel module",
        "{it} may be a DataParallel module",
    ),
    "ReportedLosses": ("the scaled loss is not seen to be reported", "the scaled loss is reported"),
    "ScalerMisuse": (
        "no mistake is seen in the order of the calls of the training step",
        "the mistakes that are seen here are those of other rules",
    ),
    "ShardedInFloat16": (
        "{it} is not seen to hold parameters that FSDP has in float16",
        "{it} holds parameters that FSDP has in float16",
    ),
    "ShardedParameters": (
        "{it} is not seen to hold parameters of an FSDP module",
        "{it} may hold parameters of an FSDP module",
    ),
    "StepsOfSharded": (
        "{it} is not seen to step on sharded parameters",
        "{it} steps on sharded parameters",
    ),
    "TensorCertainty": ("{it} may be something else than a tensor", "{it} is certainly a tensor"),
    "ThreadWork": (
        "{it} is not seen to hand work to another thread",
        "{it} hands work to another thread",
    ),
    "UnknownWhenHot": (
        "what is known of {it} holds for the calls that run once per batch",
        "the calls that run once per batch pass nothing that is known for {it}",
    ),
    "UnpinnedMoves": (
        "no batch of this loader is seen to be moved to the device",
        "a batch of this loader is moved to the device",
    ),
    "Values": ("nothing is known of {it}", "{it} is {value}"),
    "Workers": (
        "no worker process of a loader is seen to run {it}",
        "a worker process of a loader runs {it}",
    ),
}


def sentence(asked: AskedQuestion, where: Where) -> str:
    """Ex) nothing shows that `x` is built on the host"""
    it = f"`{shortened(asked.about, LONGEST_CODE)}`" if asked.about else "this"
    name, found = asked.fact.__name__, asked.answer
    if name not in SENTENCES:  # a fact of a rule package
        return f"{name} of {it}: {'yes' if found else 'no'}"
    no, yes = SENTENCES[name]
    value = value_in_words(found) if name == "Values" and isinstance(found, frozenset) else ""
    if not found or value == UNKNOWN:
        return no.format(it=it)
    return shortened(yes.format(it=it, value=value) + shown(found, where), LONGEST)


def shown(found: object, where: Where) -> str:
    """Where the answer is seen, behind the sentence.

    Ex) : train.py:12: `loader` is a loader
    """
    if isinstance(found, Heat):
        found = found.chain
    last = found[-1] if isinstance(found, tuple) and found else found
    return f": {placed(last, where)}" if isinstance(last, Evidence) else ""
