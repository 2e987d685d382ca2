"""The process that runs a program on a back end, and writes down what it showed.

    python -m amplint_verify.runs.child FD            one spec on standard input, JSON
    python -m amplint_verify.runs.child --serve BACKEND   one spec a line; forks a process for each

The answer is an observation, one line of JSON: on the pipe FD, since programs print; a server
answers on standard output, which its children do not have.
"""

from __future__ import annotations

import contextlib
import faulthandler
import gc
import importlib
import json
import os
import random
import signal
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, cast

import torch

from amplint_verify.backends.choice import BACKENDS, Aspect, AspectShown
from amplint_verify.recording.observation import Observation, RunOutcome, from_json
from amplint_verify.recording.raised import OutOfTime, message, place
from amplint_verify.recording.reached import Reach, reaching
from amplint_verify.recording.tracing import Tracer, traced
from amplint_verify.runs.deadline import ended_in_time
from amplint_verify.runs.run import collect
from amplint_verify.runs.spec import Spec

# ------------------------------------------------------------------------------- one program


def observe(spec: Spec) -> Observation:
    """Run the program of a spec in this process, which is good for nothing else afterwards."""
    from amplint_verify.recording import snapshot  # noqa: PLC0415
    from amplint_verify.recording.record import Recorder  # noqa: PLC0415

    root = Path(os.path.realpath(spec.root))
    recorder = watcher(root, spec) if spec.watched else Recorder(root)
    profiler = profiler_of(recorder, spec) if spec.profiled else None
    tracer = Tracer(recorder.places.path, frozenset(spec.traced))
    reach = Reach(recorder.places.path, spec.asked)
    fields: dict[str, Any] = {"outcome": RunOutcome.OK}
    extra: dict[str, Any] = {}
    prepare(root, spec)
    in_time = limited(recorder, root, spec)
    with warnings.catch_warnings(record=True) as caught, ExitStack() as stack:
        warnings.simplefilter("always")
        try:
            stack.enter_context(BACKEND_CONTEXTS[spec.backend](recorder, spec, extra))
            for name in spec.contexts:
                stack.enter_context(named(name)())
            if spec.watched:
                stack.enter_context(watched(recorder))
            with in_time():
                target = named(spec.target)
            recorder.clear()
            stack.enter_context(traced(tracer))
            stack.enter_context(reaching(reach))
            if profiler is not None:
                stack.enter_context(profiler)
            with in_time():  # and not around what is left to do then
                result = target(*in_place(spec.args, spec), **in_place(spec.kwargs, spec))
        except BaseException as error:  # SystemExit and KeyboardInterrupt are ends like others
            fields = {**ended(error, spec), "place": place(error, recorder.places.path_of)}
            result = None
    rng = snapshot.generators()
    if fields["outcome"] is RunOutcome.OK:
        reply = result if isinstance(result, snapshot.Returned) else snapshot.Returned(result, None)
        fields["result"] = tuple(snapshot.leaves(reply.result, "result"))
        where = "" if isinstance(reply.state, snapshot.NamedValues) else "state"
        fields["state"] = tuple(snapshot.leaves(reply.state, where)) if reply.state else ()
    return Observation(
        backend=spec.backend,
        torch=torch.__version__,
        **fields,
        **recorder.fields(),
        **(profiler.fields() if profiler is not None else {}),
        **reach.fields(),
        **extra_fields(extra, caught),
        rng=rng,
        ran=tracer.parts(),
    )


def watcher(root: Path, spec: Spec) -> Any:
    from amplint_verify.recording.watching import Watcher  # noqa: PLC0415

    shows_values = BACKENDS[spec.backend].shows[Aspect.VALUES] is AspectShown.YES
    return Watcher(root, shows_values, spec.timeline)


def profiler_of(recorder: Any, spec: Spec) -> Any:
    from amplint_verify.recording.seen_values import Profiler  # noqa: PLC0415

    return Profiler(recorder, BACKENDS[spec.backend].shows[Aspect.DEVICES] is AspectShown.YES)


def watched(recorder: Any) -> AbstractContextManager[None]:
    from amplint_verify.recording.watching import watching  # noqa: PLC0415

    return watching(recorder)


def limited(recorder: Any, root: Path, spec: Spec) -> Callable[[], AbstractContextManager[None]]:
    """Contexts in which a watched program is ended before it is killed; its time begins now."""
    if not spec.watched:
        return contextlib.nullcontext
    return partial(ended_in_time, recorder, root, time.monotonic(), spec.seconds)


def prepare(root: Path, spec: Spec) -> None:
    """Bounds, seeds, and the program's place in the process."""
    limit(spec)
    faulthandler.enable()
    os.chdir(root)
    sys.path.insert(0, str(root))
    sys.dont_write_bytecode = True
    random.seed(spec.seed)
    torch.manual_seed(spec.seed)
    with contextlib.suppress(ImportError):
        importlib.import_module("numpy").random.seed(spec.seed)


def limit(spec: Spec) -> None:
    """No core files, and no more memory than the spec allows.

    What a process has at its start is not counted: torch alone maps gigabytes.
    """
    try:
        resource: Any = importlib.import_module("resource")
    except ImportError:  # Windows has no such limits
        return
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    pages = Path("/proc/self/statm")
    if spec.backend != "cuda" and pages.exists():
        mapped = int(pages.read_text().split()[0]) * resource.getpagesize()
        _, most = resource.getrlimit(resource.RLIMIT_AS)
        address_space = mapped + spec.memory
        resource.setrlimit(
            resource.RLIMIT_AS,
            (address_space if most == resource.RLIM_INFINITY else min(address_space, most), most),
        )


def named(name: str) -> Callable[..., Any]:
    """The function that "package.module:function" names."""
    module, _, path = name.partition(":")
    target = cast("Callable[..., Any]", importlib.import_module(module))
    for part in path.split("."):
        target = getattr(target, part)
    return target


def in_place(value: Any, spec: Spec) -> Any:
    """Arguments with the back end's device in them."""
    if value == "{device}":
        return BACKENDS[spec.backend].device
    if isinstance(value, (list, tuple)):
        return [in_place(item, spec) for item in value]
    if isinstance(value, Mapping):
        return {key: in_place(item, spec) for key, item in value.items()}
    return value


def ended(error: BaseException, spec: Spec) -> dict[str, Any]:
    """The outcome that an exception stands for."""
    kind, text = type(error).__name__, message(error)
    if isinstance(error, OutOfTime):
        return {"outcome": RunOutcome.TIMEOUT, "error": "timeout", "text": text}
    if isinstance(error, SystemExit):
        return {"outcome": RunOutcome.NO_RESULT, "error": kind, "text": f"sys.exit({error.code!r})"}
    if spec.backend == "sim":
        from amplint_verify.backends import sim  # noqa: PLC0415

        reason = sim.reason(error, text)
        if reason is not None:
            return {"outcome": RunOutcome.NOT_SIMULABLE, "error": kind, "text": reason}
    return {"outcome": RunOutcome.EXCEPTION, "error": kind, "text": text}


def extra_fields(extra: Mapping[str, Any], caught: list[warnings.WarningMessage]) -> dict[str, Any]:
    """Warnings, guesses and counters, as an observation has them."""
    texts = [str(warning.message) for warning in caught]
    counters: dict[str, int] = {}
    notes: list[str] = []
    if "trace" in extra:
        from amplint_verify.backends import cuda  # noqa: PLC0415

        counters = dict(extra["trace"].counts)
        counters["sync debug mode"] = sum(cuda.DEBUG_MODE in text for text in texts)
        notes += [extra["trace"].missing] if extra["trace"].missing else []
        texts = [t for t in texts if cuda.DEBUG_MODE not in t and cuda.ABOUT_DEBUG_MODE not in t]
    if "policy" in extra:
        unknown = extra["policy"]
        notes += [f"policy not known, unchanged: {', '.join(unknown)}"] if unknown else []
    guesses = extra["sim"].guesses if "sim" in extra else 0
    return {
        "warnings": tuple(texts),
        "counters": counters,
        "guesses": guesses,
        "notes": tuple(notes),
    }


# ------------------------------------------------------------------------------- the back ends


@contextmanager
def on_cpu(recorder: Any, spec: Spec, _: dict[str, Any]) -> Iterator[None]:
    from amplint_verify.recording.record import HostMethods, waiting_functions  # noqa: PLC0415

    if not spec.record:
        yield
        return
    with recorder, waiting_functions(recorder, call=False), HostMethods(recorder):
        yield


@contextmanager
def on_policy(recorder: Any, _: Spec, extra: dict[str, Any]) -> Iterator[None]:
    from amplint_verify.backends import policy  # noqa: PLC0415

    extra["policy"] = policy.install()
    with policy.as_on_cuda(recorder):
        yield


@contextmanager
def on_sim(recorder: Any, spec: Spec, extra: dict[str, Any]) -> Iterator[None]:
    from amplint_verify.backends import sim  # noqa: PLC0415

    extra["sim"] = sim.Simulator(spec.guess)
    with sim.simulated(recorder, extra["sim"]):
        yield


@contextmanager
def on_cuda(recorder: Any, spec: Spec, extra: dict[str, Any]) -> Iterator[None]:
    from amplint_verify.backends import cuda  # noqa: PLC0415

    cuda.limit_memory(spec.memory)
    with cuda.deterministic():
        if not spec.record:
            yield
            return
        extra["trace"] = cuda.Trace()
        with cuda.on_gpu(recorder):
            yield


BACKEND_CONTEXTS = {"cpu": on_cpu, "policy": on_policy, "sim": on_sim, "cuda": on_cuda}


# ------------------------------------------------------------------------------- processes


def answer(spec: Spec, pipe: int) -> None:
    """Write the observation of a spec to a pipe, as one line."""
    os.set_inheritable(pipe, False)  # what the program starts could keep it open
    text = json.dumps(observe(spec).to_json())
    with contextlib.suppress(Exception):  # a program may close it, or put anything in its place
        sys.stdout.flush()
    with os.fdopen(pipe, "w", encoding="utf-8") as file:
        file.write(text + "\n")


def warm_up(backend: str) -> None:
    """Import and build what torch would otherwise make anew in every child."""
    torch.set_num_threads(1)
    weight = torch.zeros(1, requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=0.1)
    weight.sum().backward()
    optimizer.step()
    recorder = importlib.import_module("amplint_verify.recording.record").Recorder(Path())
    with recorder:
        weight.exp()
    importlib.import_module("amplint_verify.recording.snapshot")
    if backend == "sim":
        importlib.import_module("amplint_verify.backends.sim")
    if backend == "policy":
        importlib.import_module("amplint_verify.backends.policy").install()


def serve(backend: str) -> None:
    """Answer specs of a back end until standard input ends. Never on `cuda`: CUDA cannot fork."""
    warm_up(backend)
    gc.freeze()  # so that collections in the children leave the memory that they share alone
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        spec = from_json(Spec, json.loads(line))
        observation = forked(spec)
        out.write(json.dumps(observation.to_json()) + "\n")
        out.flush()


def forked(spec: Spec) -> Observation:
    """Run a spec in a fork of this process, under its limits."""
    answers, answering = os.pipe()
    output, printing = os.pipe()
    child = os.fork()
    if child == 0:
        os.setsid()
        os.close(answers)
        os.close(output)
        os.dup2(printing, 1)
        os.dup2(printing, 2)
        with open(os.devnull, "rb") as nothing:  # noqa: PTH123
            os.dup2(nothing.fileno(), 0)
        try:
            answer(spec, answering)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    os.close(answering)
    os.close(printing)
    return collect(child, answers, output, spec)


def main(arguments: list[str]) -> None:
    if arguments[0] == "--serve":
        serve(arguments[1])
        return
    spec = from_json(Spec, json.loads(sys.stdin.read()))
    torch.set_num_threads(1)
    answer(spec, int(arguments[0]))
    os._exit(0)  # without waiting for threads of the program


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    main(sys.argv[1:])
