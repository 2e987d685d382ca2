"""The questions that a rule asked about a line, with their answers, in sentences."""

from __future__ import annotations

from amplint.output.values_in_words import Where, placed, shortened, value_in_words
from amplint.run.inspection import AskedQuestion
from amplint.values.atoms import Evidence, Heat

LONGEST = 200  # of a sentence
LONGEST_CODE = 60  # of the code in it
NOT_HOT = "not seen to run once per batch"
UNKNOWN = "unknown"


# By the name of a fact: what is so where it holds. `{it}` is the code that was asked about.
SENTENCES: dict[str, str] = {
    "AskedByCallers": "tests stand around the calls that run this",
    "BFloat16Parameters": "{it} is a bfloat16 parameter",
    "BackpropagatedLosses": "`backward()` is called on {it}",
    "BackpropagatedValues": "{it} goes through a backward pass",
    "BackwardCalls": "{it} runs `backward()`",
    "BackwardSupport": "{it} comes of a known forward pass",
    "CalledTexts": "the functions that {it} calls are in the project",
    "Captures": "{it} is captured in a graph",
    "CastCache": "weights are changed inside of the region",
    "CastModules": "the module is cast to half",
    "Classes": "this derives from a class of a library",
    "ConstantTensors": "{it} is the same in every iteration",
    "CountedPositions": "the numbers of {it} are counted",
    "DistributedModules": "{it} is a DistributedDataParallel module",
    "Frameworks": "a framework does this",
    "FunctionTexts": "the function around is in the project",
    "GivenToLayer": "{it} passes its input to a layer as it is",
    "GradSurelyOn": "gradients are on here",
    "HandedReads": "a function reads on the host what {it} hands it",
    "HostBuilt": "{it} is built on the host",
    "Hotness": "{it} runs once per batch",
    "LoopInvariance": "{it} is the same in every iteration",
    "LossTerms": "{it} is a part of a loss",
    "LostGradients": "a later pass loses its gradients because of {it}",
    "NeverGiven": "no call passes the argument that would run this",
    "NotGuessed": "{it} is a tensor for sure",
    "OncePerEpoch": "{it} runs once an epoch",
    "OutsideRegions": "no autocast region is around {it}",
    "OverwrittenWeights": "a module that runs in the region is overwritten there",
    "PackedLengths": "{it} is the lengths of packed sequences, which have to be on the CPU",
    "ProjectText": "a file of the project says {it}",
    "ReadBack": "a framework reads what this function returns",
    "ReadByFramework": "a framework brings to the host what {it} is given",
    "ReadsOfCallers": "this function only reads what hot calls give it",
    "Regions": "{it} is in an autocast region",
    "ReplicatedModules": "{it} is a DataParallel module",
    "ReportedLosses": "the scaled loss is reported",
    "ScalerMisuse": "the calls of the training step are in a wrong order",
    "ShardedInFloat16": "{it} holds parameters that FSDP has in float16",
    "ShardedParameters": "{it} holds parameters of an FSDP module",
    "StepsOfSharded": "{it} steps on sharded parameters",
    "TensorCertainty": "{it} is certainly a tensor",
    "ThreadWork": "{it} hands work to another thread",
    "UnknownWhenHot": "the calls that run once per batch pass nothing that is known for {it}",
    "UnpinnedMoves": "a batch of this loader is moved to the device",
    "Values": "{it} is {value}",
    "Workers": "a worker process of a loader runs {it}",
}


def sentence(asked: AskedQuestion, where: Where) -> str:
    """Ex) amplint does not see that `x` is built on the host"""
    it = f"`{shortened(asked.about, LONGEST_CODE)}`" if asked.about else "this"
    name, found = asked.fact.__name__, asked.answer
    if name not in SENTENCES:  # a fact of a rule package
        return f"{name} of {it}: {'yes' if found else 'no'}"
    value = value_in_words(found) if name == "Values" and isinstance(found, frozenset) else ""
    said = SENTENCES[name].format(it=it, value=value)
    if not found or value == UNKNOWN:
        lacks = f"amplint does not see that {said}"
        return f"nothing is known of {it}" if name == "Values" else lacks
    return shortened(said + shown(found, where), LONGEST)


def shown(found: object, where: Where) -> str:
    """Where the answer is seen, behind the sentence.

    Ex) : train.py:12: `loader` is a loader
    """
    if isinstance(found, Heat):
        found = found.chain
    last = found[-1] if isinstance(found, tuple) and found else found
    return f": {placed(last, where)}" if isinstance(last, Evidence) else ""
