"""One op and dtype: each of its calls traced, then called again on its graph, and compared with eager."""

import os
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
import tracehost
from torch.utils._pytree import tree_leaves

from sweep.operators import (
    DEVICE,
    UNINITIALISED,
    UNSAFE_STRIDES,
    Call,
    Pair,
    calls_of,
    copied,
    perturbed,
    restrided,
)
from sweep.sameness import alias_pattern, difference

SEED = 11
RUNS = (
    ("trace", copied),
    ("hit", copied),
    ("other values", perturbed),
    ("other strides", restrided),  # a trace where the op's code looks at them
)
# With tapes: the third call with the same sizes is the first that one serves. None records gradients.
OPTIMIZES = os.environ.get("TRACEHOST_OPTIMIZE") == "exact"
SETTLED_RUNS = (
    ("trace", copied),
    ("hit", copied),
    ("recorded", copied),
    ("tape", copied),
    ("other values", perturbed),
    ("tape again", copied),
    ("other strides", restrided),
)
STATES = ("equal", "rejected", "different")


@dataclass
class Verdict:
    """What a pair came to: equal in all its calls, `rejected` in some, or different in one."""

    op: str
    dtype: str
    state: str = "equal"
    error: str = ""  # the class of the exception
    text: str = ""  # of the first call that was not equal
    calls: int = 0
    rejected: int = 0
    seconds: float = 0

    def note(self, state: str, text: str, error: str = "") -> None:
        self.rejected += state == "rejected"
        if STATES.index(state) > STATES.index(self.state):
            self.state, self.text, self.error = state, text, error


@dataclass
class Outcome:
    """What one run did; of the failed one only the exception counts."""

    result: object = None
    arguments: object = None
    gradients: object = None
    aliases: list[str] = field(default_factory=list)
    error: Exception | None = None
    backward_error: Exception | None = None
    generator: torch.Tensor | None = None


def check(pair: Pair) -> Verdict:
    verdict = Verdict(pair.op, pair.dtype)
    start = time.perf_counter()
    with warnings.catch_warnings(), torch.set_grad_enabled(not OPTIMIZES):
        warnings.simplefilter("ignore")
        for call in calls_of(pair):
            verdict.calls += 1
            check_call(call, verdict)
    verdict.seconds = round(time.perf_counter() - start, 2)
    return verdict


def check_call(call: Call, verdict: Verdict) -> None:
    first = run(call, call.body, copied(call.arguments))
    if first.error is not None:
        return  # the sample is not for this variant
    function = tracehost.function(call.body)
    values = verdict.op not in UNINITIALISED
    for kind, make in SETTLED_RUNS if OPTIMIZES else RUNS:
        if make is restrided and verdict.op in UNSAFE_STRIDES:
            return
        expected = first if make is copied else run(call, call.body, make(call.arguments))
        ours = run(call, function, make(call.arguments))
        where = f"{call.label}, {kind}"
        if isinstance(ours.error, tracehost.Error) and expected.error is None:
            verdict.note("rejected", f"{where}: {told(ours.error)}", type(ours.error).__name__)
            return
        found = outcome_difference(expected, ours, values)
        if found:
            verdict.note("different", f"{where}: {found}")
            return
        if kind == "other values" and function.tracing_count() != 1:
            verdict.note("different", f"{call.label}: {function.tracing_count()} traces")
            return


def run(call: Call, function: Callable, arguments: tuple) -> Outcome:
    torch.manual_seed(SEED)
    out = Outcome(arguments=arguments)
    try:
        out.result = function(*arguments)
    except Exception as error:
        out.error = error
        return out
    out.generator = generators()
    out.aliases = alias_pattern(arguments, out.result)
    if call.backward:
        try:
            out.gradients = gradients(call.finish(out.result), arguments)
        except Exception as error:
            out.backward_error = error
    return out


def generators() -> torch.Tensor:
    """The states of the generators that an op may draw from."""
    host = torch.random.get_rng_state()
    return host if DEVICE == "cpu" else torch.cat([host, torch.cuda.get_rng_state(DEVICE)])


def gradients(result: object, arguments: object) -> list[torch.Tensor | None]:
    leaves = [t for t in tree_leaves(arguments) if isinstance(t, torch.Tensor) and t.requires_grad]
    outputs = [t for t in tree_leaves(result) if isinstance(t, torch.Tensor) and t.requires_grad]
    if not outputs or not leaves:
        return []
    weights = [weight(t) for t in outputs]
    return list(torch.autograd.grad(outputs, leaves, weights, allow_unused=True))


def weight(t: torch.Tensor) -> torch.Tensor:
    """What an output's gradient is multiplied by: not the same for each element."""
    if t.layout is not torch.strided:
        return torch.ones_like(t)
    values = torch.linspace(0.5, 1.5, max(t.numel(), 1))[: t.numel()]
    return values.reshape(t.shape).to(t.device, t.dtype)


def told(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"


def outcome_difference(eager: Outcome, ours: Outcome, values: bool) -> str | None:
    for name in ("error", "backward_error"):
        a, b = getattr(eager, name), getattr(ours, name)
        if (a is None) != (b is None) or (
            a is not None and (type(a) is not type(b) or str(a) != str(b))
        ):
            return f"{name}: eager {a and told(a)}, ours {b and told(b)}"
    if eager.error is not None:
        return None
    found = difference(eager.result, ours.result, "result", values)
    found = found or difference(eager.arguments, ours.arguments, "arguments after", values)
    found = found or difference(eager.gradients, ours.gradients, "gradients", values)
    if found:
        return found
    if eager.aliases != ours.aliases:
        return f"eager's result aliases {eager.aliases}, ours {ours.aliases}"
    if not torch.equal(eager.generator, ours.generator):
        return "the generator is not where eager leaves it"
    return None
