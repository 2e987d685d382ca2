"""The questions that a rule asked about a line, with their answers, in sentences."""

from __future__ import annotations

from amplint.output.values_in_words import Where, placed, shortened, value_in_words
from amplint.run.inspection import AskedQuestion
from amplint.values.atoms import Evidence, Heat

LONGEST = 200  # of a sentence
LONGEST_CODE = 60  # of the code in it
NOT_HOT = "not seen to run once per batch"
UNKNOWN = "unknown"


# By the name of a fact: what is so where it holds. `{it}` is the code that was asked about. A fact
# of one rule says its own (`Fact.sentence`).
SENTENCES: dict[str, str] = {
    "BackpropagatedLosses": "`backward()` is called on {it}",
    "BackwardCalls": "{it} runs `backward()`",
    "CalledTexts": "the functions that {it} calls are in the project",
    "CastCache": "weights are changed inside of the region",
    "Classes": "this derives from a class of a library",
    "FunctionTexts": "the function around is in the project",
    "Hotness": "{it} runs once per batch",
    "LostGradients": "a later pass loses its gradients because of {it}",
    "NeverGiven": "no call passes the argument that would run this",
    "NotGuessed": "{it} is a tensor for sure",
    "ProjectText": "a file of the project says {it}",
    "Regions": "{it} is in an autocast region",
    "ScalerMisuse": "the calls of the training step are in a wrong order",
    "TensorCertainty": "{it} is certainly a tensor",
    "Values": "{it} is {value}",
}


def sentence(question: AskedQuestion, where: Where) -> str:
    """Ex) amplint does not see that `x` is built on the host"""
    it = f"`{shortened(question.about, LONGEST_CODE)}`" if question.about else "this"
    name, answer = question.fact.__name__, question.answer
    holds = SENTENCES.get(name) or question.fact.sentence
    if not holds:  # a fact of a rule package
        return f"{name} of {it}: {'yes' if answer else 'no'}"
    value = value_in_words(answer) if name == "Values" and isinstance(answer, frozenset) else ""
    text = holds.format(it=it, value=value)
    if not answer or value == UNKNOWN:
        lacks = f"amplint does not see that {text}"
        return f"nothing is known of {it}" if name == "Values" else lacks
    return shortened(text + place_of_answer(answer, where), LONGEST)


def place_of_answer(answer: object, where: Where) -> str:
    """Where the answer is seen, behind the sentence.

    Ex) : train.py:12: `loader` is a loader
    """
    if isinstance(answer, Heat):
        answer = answer.chain
    last = answer[-1] if isinstance(answer, tuple) and answer else answer
    return f": {placed(last, where)}" if isinstance(last, Evidence) else ""
