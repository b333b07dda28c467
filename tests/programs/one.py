"""Runs one row, in a process of its own: 20 calls of a traced program beside the same calls of its twin."""

import random
import statistics
import sys
import time
import traceback
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path

import torch

from programs.compare import difference
from programs.program import Program

CALLS = 20
ENOUGH = 3  # traces: a first one, one more with gradients or state, one more with a number that became an input
AT_LEAST, PATIENCE = 6, 40  # calls; seconds after which a large model has made enough of them
SHOWN = 200  # characters of a message
RESULT = "which a later call could not make again"  # a TypeError that tracehost raises


@dataclass
class Outcome:
    row: str
    outcome: str = "right"  # or "silently wrong", "rejected", "crash", "eager fails"
    text: str = ""
    line: str = ""  # the last line of the package or of the program in a traceback
    traces: int = 0
    ratio: float = 0.0  # time of a hit over that of an eager call
    why: str = ""  # what the last trace said, where there were many
    warned: list[str] = field(default_factory=list)
    runs_by: list[str] = field(default_factory=list)  # of each graph


def run(name: str) -> dict:
    from programs.rows import ROWS

    outcome = Outcome(name)
    functions = []
    traces = lambda: sum(f.tracing_count() for f in functions)
    try:
        ours, eager = made(ROWS[name], functions)
    except Exception as error:  # noqa: BLE001
        outcome.outcome, outcome.text = "eager fails", shown(error)
        return asdict(outcome)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        compare_calls(ours, eager, outcome, traces)
    outcome.traces = traces()
    outcome.why = reason() if outcome.traces > ENOUGH else ""
    kinds = {f"{w.category.__name__}: {w.message}"[:SHOWN] for w in caught if is_ours(w)}
    outcome.warned = sorted(kinds)
    outcome.runs_by = [s.runs_by for f in functions for s in f.specializations()]
    return asdict(outcome)


def made(make, functions: list) -> tuple[Program, Program]:
    """The program with its function traced, and its twin."""
    import tracehost

    def decorate(body, **options):
        functions.append(tracehost.function(body, **options))
        return functions[-1]

    programs = []
    for how in (decorate, lambda body, **_: body):
        seed(0)
        programs.append(make(how))
    return tuple(programs)


def compare_calls(
    ours: Program, eager: Program, outcome: Outcome, traces: Callable[[], int] = lambda: 0
) -> None:
    times, traced = [], []
    start = time.monotonic()
    for index in range(CALLS):
        if index >= AT_LEAST and time.monotonic() - start > PATIENCE:
            break
        expected, eager_time, state = attempt(eager, index)
        if isinstance(expected, Exception):
            outcome.outcome, outcome.text = "eager fails", shown(expected)
            return
        before = traces()
        result, our_time, our_state = attempt(ours, index)
        if isinstance(result, Exception):
            tell(result, outcome)
            return
        near = differs(expected, result, eager, ours)
        found = near and differs(expected, result, eager, ours, close=True)
        if near and not found:
            outcome.text = outcome.text or f"call {index + 1}, within rounding: {near}"
        if not found and not torch.equal(state, our_state):
            found = "torch's generator stands elsewhere"
        if found:
            outcome.outcome, outcome.text = "silently wrong", f"call {index + 1}: {found}"
            return
        (times if traces() == before else traced).append((our_time, eager_time))
    hits = times[len(times) // 3 :] or traced  # the first ones are slower
    outcome.ratio = round(
        statistics.median(t for t, _ in hits) / statistics.median(t for _, t in hits), 2
    )


def differs(expected, result, eager: Program, ours: Program, close: bool = False) -> str | None:
    of_state = lambda: difference(eager.state(), ours.state(), "state", close)
    return difference(expected, result, close=close) or of_state()


def attempt(program: Program, index: int) -> tuple[object, float, torch.Tensor]:
    seed(100 + index)
    start = time.process_time()  # other programs on the machine don't count
    try:
        result = program.run(index)
    except Exception as error:  # noqa: BLE001
        result = error
    return result, time.process_time() - start, torch.get_rng_state()


def reason() -> str:
    import tracehost

    last = [e for e in tracehost.events() if e.kind == "trace"][-1:]
    return " ".join(str(t) for e in last for t in (*e.notes, *e.causes))[:SHOWN]


def seed(number: int) -> None:
    import numpy

    torch.manual_seed(number)
    random.seed(number)
    numpy.random.seed(number)


def tell(error: Exception, outcome: Outcome) -> None:
    import tracehost

    rejected = isinstance(error, tracehost.Error) or RESULT in str(error)
    outcome.outcome = "rejected" if rejected else "crash"
    outcome.text = shown(error)
    outcome.line = last_line(error)


def shown(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())[:SHOWN]


def last_line(error: Exception) -> str:
    """The last line of a traceback that is not in tracehost."""
    import tracehost

    # By the package's own folder: a checkout may be called tracehost, too.
    package = str(Path(tracehost.__file__).parent)
    frames = traceback.extract_tb(error.__traceback__)
    theirs = [f for f in frames if not f.filename.startswith(package) and f.filename[0] != "<"]
    if not theirs:
        return ""
    last = theirs[-1]
    file = last.filename.partition("site-packages/")[2] or last.filename.rpartition("/tests/")[2]
    return f"{file}:{last.lineno}"


def is_ours(warning) -> bool:
    return warning.category.__module__.startswith(("tracehost", "_tracehost"))


def debug(name: str) -> None:
    """The whole traceback of a row, for a person."""
    from programs.rows import ROWS

    ours, eager = made(ROWS[name], [])
    for index in range(CALLS):
        seed(100 + index)
        expected = eager.run(index)
        seed(100 + index)
        result = ours.run(index)
        print(index + 1, difference(expected, result), file=sys.stderr)
        print("  ", difference(eager.state(), ours.state(), "state"), file=sys.stderr)
