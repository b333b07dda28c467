"""Calls that kernel tapes serve, with inputs that lie in memory in every way, on several threads, beside eager.

    cd tests && tracehost -m sweep.settled --count 100000 --seed 1

Each round takes a program, and a layout for each of its inputs. It calls the program so often that a tape is made,
and then continues with new values. Now and then one input gets another layout, or two inputs share memory. The exit
status is 1 if a call differs: in bits, sizes, strides, versions, aliases, inputs after the call, or the generator.
"""

import argparse
import random
import sys
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
import tracehost

from sweep.sameness import alias_pattern, difference

CALLS = 25  # of one layout
WEIGHT = torch.full((1,), 0.5, requires_grad=True)
SPECIAL = (float("nan"), float("inf"), -float("inf"), -0.0, 0.0, 1e-40, -1e-42, 3e38, 1.0)


def pointwise(x, y):
    for _ in range(4):
        x = torch.sigmoid(x * y + 0.5) - torch.relu(-y) * x.abs()
    return x, x.exp()


def compared(x, y):
    return torch.where(x > y, x, y * 2), (x == y) | x.isnan(), x.clamp(-1, 1), x.sign()


def reduced(x, y):
    return (
        x.sum(),
        (x * y).mean(-1),
        x.amax(0) if x.shape[0] else x,
        (x - y).square().sum(0, keepdim=True),
    )


def viewed(x, y):
    z = x + y
    return z[1:], z.t(), z.unsqueeze(0).expand(2, *z.shape), x[:1]


def multiplied(x, y):
    return torch.tanh(x @ y.t()) @ y, F.linear(x, y, y[:, 0])


def normalized(x, y):
    return torch.softmax(x, -1) + torch.log_softmax(y, -1), F.layer_norm(x, x.shape[-1:])


def joined(x, y):
    return torch.cat([x, y * 2]), torch.stack([x, y]).flip(0), torch.roll(x, 1)


def written(x, y):
    x.mul_(2).add_(y)
    y[0:1].sub_(x[0:1])
    return x.sum(), x


def drawn(x, y):
    return x + torch.rand(x.shape), F.dropout(y, 0.5), torch.randn(3)


def looped(x, y):
    for _ in tracehost.range(3):
        x = x * 0.5 + y
    return x


def branched(x, y):
    if x.sum() > y.sum():
        x = x * 2
    else:
        x = x - y
    return x + 1


def nested(x, y):
    """A loop in a loop and in a branch, and writes to what a block has made."""
    total = torch.zeros(())
    for _ in tracehost.range(2):
        if x.sum() > y.sum():
            for _ in tracehost.range(2):
                t = y * 2
                t.add_(1).mul_(2)
                total = total + t.sum()
        else:
            total = total + (torch.rand(3) < 0.5).float().mean()
    return total + 1


def accumulated(x, y):
    """Writes of a loop and a branch to what lies around them, as often as values say."""
    total = torch.zeros((), dtype=x.dtype)
    for _ in tracehost.range(2):
        if x.sum() > y.sum():
            total.add_(y.sum())
            x[0:1].mul_(2)
        else:
            y[0:1].sub_(x[0:1])
    return total, x + y


def copied(x, y):
    return x.clone(), y.contiguous(), x.to(torch.float64), x.half(), x.to(x.dtype)


def given(x, y):
    return x, x.detach(), (y, y + 0)


def numbered(x, y):
    return x * x.shape[0] + y.dim(), x.new_zeros(2), torch.arange(x.shape[-1]) + x


def picked(x, y):
    """Views whose places and sizes follow from values."""
    n = (y > 0).sum().item() % 3
    return x[n:] + 1, x.roll(n, 0), x * n, x.narrow(0, 0, n).exp(), x[n] * y, x[n:].sum(), n


def gathered(x, y):
    rows = (y > 0).sum(-1) % max(x.shape[0], 1)
    at = rows[0]
    return (
        x[rows],
        x.index_select(0, rows),
        x[at] + 1,
        x[at:].sum(0),
        x.t()[:, at] * 2,
        y[at].clone(),
    )


def differentiated(x, y):
    """Views by a number that are read beside gradients."""
    n = (y > 0).sum().item() % 2
    with torch.enable_grad():
        (gradient,) = torch.autograd.grad((WEIGHT * x).square().sum(), WEIGHT)
        (other,) = torch.autograd.grad((WEIGHT.exp() * y[n]).sum(), WEIGHT)
    return gradient, other * n, x[n:] + 1, y[n] * 2, (x * y).t()


def one_of_rows(x, y):
    """A view by a number that is a result."""
    n = (y > 0).sum().item() % 2
    with torch.enable_grad():
        (gradient,) = torch.autograd.grad((WEIGHT * x).square().sum(), WEIGHT)
    return gradient, x[n]


PROGRAMS = (
    picked,
    gathered,
    differentiated,
    one_of_rows,
    pointwise,
    compared,
    reduced,
    viewed,
    multiplied,
    normalized,
    joined,
    written,
    drawn,
    looped,
    branched,
    nested,
    accumulated,
    copied,
    given,
    numbered,
)
DRAWS = (drawn, nested)  # they run one after another: torch's generator is one
DTYPES = (torch.float32,) * 5 + (torch.float64, torch.bfloat16, torch.int64, torch.int32)
SHAPES = ((3, 3), (1, 4), (4, 1), (5, 8), (0, 3), (3, 0), (1, 1), (2, 17), (16, 16), (33, 7))


def plain(shape, dtype):
    return torch.empty(shape, dtype=dtype)


def turned(shape, dtype):
    return torch.empty(shape[::-1], dtype=dtype).t()


def in_a_larger(shape, dtype):
    return torch.empty(shape[0] + 2, shape[1] + 3, dtype=dtype)[1:-1, 2:-1]


def every_second(shape, dtype):
    return torch.empty(shape[0] * 2, shape[1], dtype=dtype)[::2]


def expanded(shape, dtype):
    return torch.empty(1, shape[1], dtype=dtype).expand(shape)


def at_an_offset(shape, dtype):
    return torch.empty(shape[0] * shape[1] + 1, dtype=dtype)[1:].view(shape)


def unaligned(shape, dtype):
    if dtype == torch.bfloat16:
        return plain(shape, dtype)
    size = torch.empty(0, dtype=dtype).element_size()
    raw = np.zeros(shape[0] * shape[1] * size + 1, dtype=np.uint8)[1:]
    return torch.from_numpy(raw.view(str(dtype).removeprefix("torch.")).reshape(shape))


LAYOUTS = (plain, plain, turned, in_a_larger, every_second, expanded, at_an_offset, unaligned)


class Case(NamedTuple):
    program: Callable
    shape: tuple[int, int]
    dtype: torch.dtype
    layouts: tuple[Callable, Callable]
    shared: str  # "" or how y lies in x's memory

    def inputs(self, numbers: torch.Generator) -> list[torch.Tensor]:
        x = filled(self.layouts[0](self.shape, self.dtype), numbers)
        if self.shared == "same":
            return [x, x]
        if self.shared == "view":
            return [x, x.view_as(x)]
        if self.shared == "overlap":
            base = filled(torch.empty(self.shape[0] + 1, self.shape[1], dtype=self.dtype), numbers)
            return [base[1:], base[:-1]]
        return [x, filled(self.layouts[1](self.shape, self.dtype), numbers)]


def filled(t: torch.Tensor, numbers: torch.Generator) -> torch.Tensor:
    if not t.numel():
        return t
    values = torch.randn(t.shape, generator=numbers) * 3
    if t.dtype.is_floating_point:
        some = torch.rand(t.shape, generator=numbers) < 0.1
        which = torch.randint(len(SPECIAL), t.shape, generator=numbers)
        if int(torch.randint(3, (), generator=numbers)) == 0:
            values = torch.where(some, torch.tensor(SPECIAL)[which], values)
    into = t[:1] if 0 in t.stride() else t  # an expanded one has one row
    into.copy_(values[:1] if 0 in t.stride() else values)
    return t


def chosen(choose: random.Random) -> Case:
    program = choose.choice(PROGRAMS)
    dtype = choose.choice(DTYPES)
    layouts = (choose.choice(LAYOUTS), choose.choice(LAYOUTS))
    shared = choose.choice(("", "", "", "", "same", "view", "overlap"))
    return Case(program, choose.choice(SHAPES), dtype, layouts, shared)


def bits(t: torch.Tensor) -> torch.Tensor:
    """The values as integers, each NaN as one: -0.0 is not 0.0."""
    if not t.dtype.is_floating_point:
        return t
    same_nan = torch.where(t.isnan(), torch.full((), float("nan"), dtype=t.dtype), t).contiguous()
    return same_nan.view({8: torch.int64, 4: torch.int32, 2: torch.int16}[t.element_size()])


def outcome(function: Callable, case: Case, seed: int) -> list:
    """All that a call leaves: result or exception, inputs, aliases, versions, the generator."""
    inputs = case.inputs(torch.Generator().manual_seed(seed))
    before = [t._version for t in inputs]
    if case.program in DRAWS:
        torch.manual_seed(seed)
    try:
        result = function(*inputs)
    except Exception as error:
        if isinstance(error, tracehost.Error):
            raise
        return [type(error).__name__]
    leaves = [t for t in torch.utils._pytree.tree_leaves(result) if isinstance(t, torch.Tensor)]
    versions = [t._version - b for t, b in zip(inputs, before, strict=True)]
    return [
        result,
        inputs,
        alias_pattern(inputs, result),
        versions,
        [(t.stride(), t.storage_offset(), t._is_view()) for t in leaves],
        [bits(t) for t in (*leaves, *inputs)],
        torch.random.get_rng_state() if case.program in DRAWS else None,
    ]


def round_of(case: Case, function: Callable, seed: int) -> str:
    """CALLS calls; what the first that differs differs in."""
    with torch.no_grad():
        for call in range(CALLS):
            expected = outcome(case.program, case, seed + call)
            ours = outcome(function, case, seed + call)
            if len(expected) != len(ours):
                return f"call {call}: {expected[:1]} for {ours[:1]}"
            found = difference(expected, ours)
            if found:
                return f"call {call}: {found}"
    return ""


def main() -> int:
    parser = argparse.ArgumentParser(prog="sweep.settled")
    parser.add_argument("--count", type=int, default=10_000, help="calls")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, default=3)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    choose = random.Random(options.seed)
    functions = {
        p: tracehost.function(p, optimize="exact", validate="off", limit=200) for p in PROGRAMS
    }
    cases = [chosen(choose) for _ in range(options.count // CALLS)]
    bad = rejected = 0
    with ThreadPoolExecutor(1) as one, ThreadPoolExecutor(options.threads) as many:
        rounds = [
            # What draws needs the generator for itself.
            (one if case.program in DRAWS else many).submit(
                round_of, case, functions[case.program], number * CALLS
            )
            for number, case in enumerate(cases)
        ]
        for number, (case, found) in enumerate(zip(cases, rounds, strict=True)):
            try:
                text = found.result()
            except tracehost.Error:
                rejected += 1
                continue
            if text:
                bad += 1
                print(f"{number}: {case.program.__name__} {case}: {text}", flush=True)
    ran = [s.runs_by for f in functions.values() for s in f.specializations()]
    print(
        f"{len(cases) * CALLS} calls, {sum('a tape' in by for by in ran)} of {len(ran)} graphs with tapes, "
        f"{rejected} rounds rejected, {bad} different"
    )
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
