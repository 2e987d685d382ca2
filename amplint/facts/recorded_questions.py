"""Questions that rules ask about a project, and their answers, to be held against those of a later
run.

Rules are functions of the text of a file and of what they ask about the project. So the
findings in a file stay what they were as long as its text is the same, and each question that
was asked for them has the answer that it had. A question may rest on the answers before it, which
are the same by then.

An answer is known by a digest of all that is in it, places and evidence included. Evidence that is
looked for only when somebody asks is a question of its own.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from typing import Any, cast

import msgspec

from amplint.facts.fact import Answer_co, Fact, Facts, Known, NodeFact
from amplint.facts.inference_results import Regions, Values
from amplint.facts.program import FileView
from amplint.ir.ast_cache import NodePlace
from amplint.ir.codec import packed
from amplint.ir.file_index import File
from amplint.util.positions import Place, Span
from amplint.util.walks import reachable
from amplint.values.atoms import UNKNOWN, LazyEvidence, Value

Spans = Callable[[Place], Span]
Plain = list[Any]  # MessagePack has it
# The questions that no fact answers.
EVALUATED, EVIDENCE, SPAN = "evaluated", "evidence", "span"
ARGUMENTS: Mapping[str, Callable[..., object]] = {"node": NodePlace, "place": Place}


class NotPlainError(Exception):
    """A question or an answer cannot be written down."""


class Asked(msgspec.Struct, array_like=True):
    """A question, and the digest of its answer."""

    question: Plain
    answer: bytes


class Dialogue:
    """Questions about a project, asked one after the other.

    Args:
        facts: answer them.
        spans: returns where a place of whatever file stands in its text.
    """

    def __init__(self, facts: Facts, spans: Spans) -> None:
        self._facts = facts
        self._spans = spans
        self.answers: list[object] = []
        self.evidence: list[Sequence[LazyEvidence]] = []  # that is looked for, in each answer

    def ask(self, question: Plain) -> bytes:
        """Ask a question; returns the digest of its answer. Raises what the fact raises, and
        NotPlainError."""
        return self.note(self._answer(question))

    def note(self, answer: object) -> bytes:
        """Take down an answer, and give its digest. Raises NotPlainError."""
        plain, evidence = written(answer)
        self.answers.append(answer)
        self.evidence.append(evidence)
        return hashlib.blake2b(plain, digest_size=8).digest()

    def _answer(self, question: Plain) -> object:
        kind, method, *plain = question
        arguments = [self._argument(each) for each in plain]
        if kind:
            return getattr(self._facts[fact_of(kind)], method)(*arguments)
        if method == EVIDENCE:
            number, place = arguments
            return self.evidence[number][place].get()
        if method == SPAN:
            return self._spans(*arguments)
        return evaluated(self._facts, *arguments)

    def _argument(self, plain: object) -> Any:
        if not isinstance(plain, list):
            return plain
        kind, *parts = plain
        if kind == "answer":
            return self.answers[parts[0]]
        if kind == "value":
            function, number = parts  # evidence, which takes time, decides nothing
            return self._facts.inference.states[function].values[number]
        return ARGUMENTS[kind](*parts) if parts else UNKNOWN


def same(questions: Sequence[Asked], facts: Facts, spans: Spans) -> bool:
    """Whether all questions have the answers that they had."""
    dialogue = Dialogue(facts, spans)
    try:
        return all(dialogue.ask(each.question) == each.answer for each in questions)
    except Exception:  # what cannot be asked any more has another answer
        return False


class Notes:
    """The questions that are asked about one file.

    Args:
        facts: answer them.
        spans: see `Dialogue`.

    Attributes:
        questions: each once; None once there was one that cannot be written down.
        values: those that are known to be the answer about a node, for questions about them.
    """

    def __init__(self, facts: Facts, spans: Spans) -> None:
        self.questions: list[Asked] | None = []
        self.values: dict[Value, NodePlace] = {}
        self._dialogue = Dialogue(facts, spans)
        self._replies: dict[object, object] = {}  # by question
        self._numbers: dict[int, int] = {}  # by the `id` of an answer, which the dialogue holds

    def ask_once(
        self, kind: type[Fact], name: str, arguments: tuple[Any, ...], answer: Callable[..., Any]
    ) -> Any:
        """The answer of a fact, which is asked each question once."""
        try:
            plain = tuple(map(self._plain, arguments))
        except NotPlainError:
            self.questions = None
            return answer(*arguments)
        key = (name_of(kind), name, *plain)
        return self.once(key, arguments, lambda: answer(*arguments))

    def once(self, key: tuple[Any, ...], arguments: Any, answer: Callable[[], object]) -> object:
        if key not in self._replies:
            plain = [*key[:2], *map(self._written, arguments)]
            self._replies[key] = self._note(plain, answer)
        return self._replies[key]

    def _note(self, question: Plain, answer: Callable[[], object]) -> object:
        reply = answer()
        if self.questions is None:
            return reply
        try:
            digest = self._dialogue.note(reply)
        except NotPlainError:
            self.questions = None
            return reply
        number = len(self.questions)
        self.questions.append(Asked(question, digest))
        self._numbers[id(reply)] = number
        for place, evidence in enumerate(self._dialogue.evidence[number]):
            evidence.heard = lambda proof, place=place: self._looked_for(number, place, proof)
        return reply

    def _looked_for(self, number: int, place: int, proof: object) -> None:
        key = ("", EVIDENCE, number, place)
        self.once(key, (number, place), lambda: proof)

    def _plain(self, argument: Any) -> object:
        """An argument as part of a key."""
        if isinstance(argument, str | int | NodePlace | Place | None):
            return argument
        if id(argument) in self._numbers or argument is UNKNOWN:
            return ("answer", id(argument))
        if isinstance(argument, frozenset) and argument in self.values:
            return ("value", argument)
        raise NotPlainError

    def _written(self, argument: Any) -> object:
        """An argument as MessagePack has it."""
        if isinstance(argument, NodePlace):
            return ["node", *argument]
        if isinstance(argument, Place):
            return ["place", *argument]
        if isinstance(argument, str | int | None):
            return argument
        if argument is UNKNOWN:
            return ["unknown"]
        if id(argument) in self._numbers:
            return ["answer", self._numbers[id(argument)]]
        return ["value", *self.values[argument][:2]]


class NotedView(FileView):
    """The facts of a project, asked for about one file, with each question noted."""

    def __init__(self, file: File, facts: Facts, spans: Spans) -> None:
        super().__init__(file, facts)
        self.notes = Notes(facts, spans)
        self._spans = spans
        question = ("", EVALUATED, file.path)
        self.notes.once(question, (file.path,), lambda: evaluated(facts, file.path))

    def fact(self, kind: type[Known]) -> Known:
        """A fact of the project, which notes what it is asked."""
        return cast(Known, NotedFact(self.notes, kind, super().fact(kind)))

    def ask(self, kind: type[NodeFact[Answer_co]], node: Any) -> Answer_co | None:
        """The answer of a fact about a node; None where nothing is known of it."""
        at = self.at(node)
        if at is None:
            return None
        return cast(
            "Answer_co | None", self.notes.ask_once(kind, "of", (at,), self._facts[kind].of)
        )

    def span(self, place: Place) -> Span:
        """Where a place of whatever file stands in its text."""
        question = ("", SPAN, place)
        return cast(Span, self.notes.once(question, (place,), lambda: self._spans(place)))


class NotedFacts(Facts):
    """The facts of a project, asked for about the nodes of one file, with each question noted that
    something outside of their functions may decide about.

    Args:
        facts: of the project.
        spans: see `Dialogue`.

    Attributes:
        silent: by fact: the nodes of which it knows nothing, which most questions are about.
    """

    def __init__(self, facts: Facts, spans: Spans) -> None:
        super().__init__(facts.inference)
        self.notes = Notes(facts, spans)
        self.silent: dict[str, dict[str, list[int]]] = {}
        self._facts = facts
        self._noted: dict[type[Fact], Any] = {}

    def __getitem__(self, kind: type[Known]) -> Known:
        if kind not in self._noted:
            fact = self._facts[kind]
            noted: object = NotedFact(self.notes, kind, fact)
            if isinstance(fact, NodeFact):
                noted = NotedNodeFact(self, kind, fact)
            self._noted[kind] = noted
        return cast(Known, self._noted[kind])


class NotedFact:
    """A fact that notes what it is asked.

    Args:
        notes: where.
        kind: the fact.
        fact: the same.
    """

    def __init__(self, notes: Notes, kind: type[Fact], fact: Fact) -> None:
        self._notes = notes
        self._kind = kind
        self._of = fact

    def __getattr__(self, name: str) -> Any:
        answer = getattr(self._of, name)
        if not callable(answer):
            self._notes.questions = None  # whatever is read of it
            return answer

        def ask(*arguments: Any, **named: Any) -> Any:
            if named:
                self._notes.questions = None  # a question is written down by position
                return answer(*arguments, **named)
            return self._notes.ask_once(self._kind, name, arguments, answer)

        return ask


class NotedNodeFact(NotedFact):
    """A fact about nodes, of which it is noted apart which ones it knows nothing of."""

    def __init__(self, noted: NotedFacts, kind: type[Fact], fact: NodeFact[Any]) -> None:
        super().__init__(noted.notes, kind, fact)
        self._noted = noted
        self._fact = fact
        self._replies: dict[NodePlace, object] = {}

    def of(self, at: NodePlace) -> Any:
        if at not in self._replies:
            self._replies[at] = self._reply(at)
        return self._replies[at]

    def _reply(self, at: NodePlace) -> object:
        noted, kind, fact = self._noted, self._kind, self._fact
        answer = fact.of(at)
        if isinstance(fact, Regions):
            return answer  # which is the function's own, except its evidence
        if isinstance(fact, Values) and not fact.rests_on_callers(at):
            if answer is not None:
                noted.notes.values.setdefault(answer, at)
            return answer
        if answer is None:
            silent = noted.silent.setdefault(name_of(kind), {})
            silent.setdefault(at.function, []).extend((at.node, at.block))
            return None
        return noted.notes.ask_once(kind, "of", (at,), lambda _: answer)


def is_silent(silent: Mapping[str, Mapping[str, Sequence[int]]], facts: Facts) -> bool:
    """Whether facts still know nothing of these nodes."""
    try:
        return all(
            of(NodePlace(function, node, block)) is None
            for kind, by_function in silent.items()
            for of in [facts[fact_of(kind)].of]  # type: ignore[attr-defined]  # one about nodes
            for function, numbers in by_function.items()
            for node, block in zip(numbers[::2], numbers[1::2], strict=True)
        )
    except Exception:  # what cannot be asked any more has another answer
        return False


def evaluated(facts: Facts, path: str) -> Sequence[str]:
    """The functions of a file of which anything is known."""
    inference = facts.inference
    return sorted(inference.files[path].facts.functions.keys() & inference.states.keys())


def name_of(kind: type[Fact]) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


@cache
def fact_of(name: str) -> type[Fact]:
    """The fact of a name. Raises StopIteration where there is none."""
    every = reachable([Fact], lambda each: each.__subclasses__())
    return next(kind for kind in every if name_of(kind) == name)


# ---------------------------------------------------------------------------------- as plain data


def written(answer: object) -> tuple[bytes, Sequence[LazyEvidence]]:
    """All of an answer but the evidence that is looked for, and this evidence in the order in which
    it stands there. Answers that differ in anything are written in different ways.

    Raises NotPlainError for an object of which it is not known what is in it.
    """
    evidence: list[LazyEvidence] = []
    return ENCODER.encode(plain_of(answer, evidence)), evidence


ENCODER = msgspec.msgpack.Encoder()


def plain_of(thing: Any, evidence: list[LazyEvidence]) -> object:
    """A part of an answer; a list begins with what it stands for."""
    kind = type(thing)
    if thing is None or kind in CONSTANTS:
        return packed(thing)
    if kind is frozenset or kind is set:
        return ["set", *parts_of(thing, evidence)]
    if kind is LazyEvidence:
        evidence.append(thing)
        return ["evidence", *thing.order]
    names = names_of(cast(Hashable, kind))
    if names is not None:
        return [kind.__name__, *[plain_of(getattr(thing, name), evidence) for name in names]]
    if isinstance(thing, Enum):
        return [kind.__name__, thing.name]
    if isinstance(thing, tuple | list):
        return [kind.__name__, *[plain_of(each, evidence) for each in thing]]
    if isinstance(thing, Mapping):
        return ["items", *[plain_of(pair, evidence) for pair in thing.items()]]
    raise NotPlainError(kind)


def parts_of(things: Collection[Any], evidence: list[LazyEvidence]) -> Sequence[bytes]:
    """The members of a set, in an order that does not depend on hashing."""
    members: list[tuple[bytes, list[LazyEvidence]]] = []
    for each in things:
        own: list[LazyEvidence] = []
        members.append((ENCODER.encode(plain_of(each, own)), own))
    members.sort(key=lambda part: part[0])
    for _, own in members:
        evidence += own
    return [part for part, _ in members]


CONSTANTS = frozenset({str, int, float, bool, bytes})


@cache
def names_of(kind: Hashable) -> Sequence[str] | None:
    """The fields of a kind of objects that are nothing but these; None for another kind."""
    if is_dataclass(kind):
        return tuple(field.name for field in fields(kind))
    named: Sequence[str] | None = getattr(kind, "_fields", None)
    return named
