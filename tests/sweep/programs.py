"""Random programs as source text: a body `f`, its inputs for each call, and the tensors that it captures.

A statement is made by drawing a template and the names in it, and is executed at once beside the others: what
eager does not take is left out, and what it gives decides which statements may follow. The draws come from
hypothesis, which makes a failing program small.
"""

import contextlib
from collections.abc import Callable

import torch

HEADER = """import torch

W = torch.linspace(-1, 1, 6).reshape(2, 3)
P = torch.linspace(-0.5, 1, 3).requires_grad_()
N = torch.arange(3)


class State:  # what the sides of an `if` change besides their variables
    pass


S = State()
S.flag, S.n, S.text, S.t, S.held, S.log = False, 0, "", torch.zeros(3), None, []


def note(value):
    S.log.append(value)
    S.n += 1
    return value


def told(value):
    return f"{value.dtype} {tuple(value.shape)}"


def laid(t, k):
    # The third call's tensors have their dimensions in memory the other way round.
    return t if k < 2 or t.dim() < 2 else t.transpose(0, -1).contiguous().transpose(0, -1)


"""

SHAPES = ("2, 3", "3", "3, 3", "2, 1, 3", "", "1, 3")
RANDOM = {
    "float": "laid(torch.randn({shape}, generator=g), k)",
    "grad": "laid(torch.randn({shape}, generator=g), k).requires_grad_()",
    "int": "laid(torch.randint(-2, 4, ({shape},), generator=g), k)",
    "bool": "laid(torch.rand({shape}, generator=g) > 0.5, k)",
}
# What an input after the first may be of the first, `a`.
ALIASES = (
    "a",
    "a.detach()",
    "a.t() if a.dim() == 2 else a",
    "a[..., :2] if a.dim() else a",
    "a[0] if a.dim() else a",
    "a.reshape(-1)",
)

# {x}, {y}: tensors; {f}: a float one; {m}: a bool one; {i}: an int one; {k}: a small int; {n}: a number.
NEW = (
    "torch.sin({f})",
    "{x} * 2",
    "{x} + {n}",
    "{n} - {x}",
    "{f} / 2",
    "{x} ** 2",
    "{x} % 3",
    "{x} // 2",
    "torch.relu({x})",
    "{f}.sigmoid()",
    "-{f}",
    "{x}.float()",
    "{x}.long()",
    "{x}.double()",
    "{x}.to({y}.dtype)",
    "{x}.clone()",
    "{x}.detach()",
    "{x}.contiguous()",
    "{x} + {y}",
    "{x} - {y}",
    "{x} * {y}",
    "torch.maximum({x}, {y})",
    "torch.where({m}, {x}, {y})",
    "torch.where({x} > 0, {x}, {n})",
    "{x} > {y}",
    "{x} == {y}",
    "~{m}",
    "{m} & ({x} > 0)",
    "{f} @ {f}",
    "torch.matmul({f}, {f}.transpose(-1, -2))",
    "torch.cat([{x}, {y}])",
    "torch.stack([{x}, {x}])",
    "{x}.sum()",
    "{x}.sum(0)",
    "{f}.mean(-1, keepdim=True)",
    "{x}.amax(0)",
    "{x}.argmax()",
    "{x}.cumsum(0)",
    "{x}.any()",
    "{f}.std(0)",
    "{f}.softmax(-1)",
    "torch.nn.functional.layer_norm({f}, {f}.shape[-1:])",
    "torch.zeros_like({x})",
    "torch.ones({x}.shape[0])",
    "torch.arange({x}.shape[-1])",
    "{x}.new_full((2,), {k})",
    "torch.tensor([{n}, 2, 3])",
    "torch.full((3,), {n})",
    "{x} * {x}.shape[0]",
    "{x} + len({x})",
    "{x} * {x}.numel()",
    "{x}.reshape({x}.shape[::-1])",
    "torch.gather({x}, 0, {i} % {x}.shape[0])",
    "{x}[{i} % {x}.shape[0]]",
    "{x}[{m}]",
    "{x}.flip(0)",
    "torch.nn.functional.pad({x}, (1, 1))",
    "{x}.sort(0)[0]",
    "{x}.topk(1, 0)[1]",
    "{x}.repeat(2, *[1] * ({x}.dim() - 1))",
    "{x} * s",
    "{x} + k",
)
VIEWS = (
    "{x}[0]",
    "{x}[1:]",
    "{x}[..., ::2]",
    "{x}[..., {k}]",
    "{x}[None]",
    "{x}.t()",
    "{x}.transpose(0, -1)",
    "{x}.unsqueeze(-1)",
    "{x}.squeeze()",
    "{x}.expand(2, *{x}.shape)",
    "{x}.expand_as({y})",
    "{x}.view(-1)",
    "{x}.view({x}.shape[0], -1)",
    "{x}.reshape(-1)",
    "{x}.select(0, {k})",
    "{x}.narrow(0, 0, 1)",
    "{x}.unbind()[-1]",
    "{x}.chunk(2)[0]",
    "{x}.split(1, -1)[1]",
    "{x}.diagonal()",
    "{x}.flatten()",
    "{x}.permute(*reversed(range({x}.dim())))",
    "{x}.view_as({x})",
    "torch.as_strided({x}, (2,), (1,))",
)
WRITES = (
    "{x}.add_({n})",
    "{x}.mul_({y})",
    "{x}.sub_({y})",
    "{x}.copy_({y})",
    "{x}.zero_()",
    "{x}.fill_({k})",
    "{x}.masked_fill_({m}, {k})",
    "{x}.masked_fill_({x} > 1, 0)",
    "{x}.clamp_(-1, 1)",
    "{x}[0] = {y}",
    "{x}[0] = {n}",
    "{x}[..., 0] += 1",
    "{x}[{x} > 0] = {k}",
    "{x}[{m}] = {k}",
    "{x} += {y}",
    "{x} *= 2",
    "{x}.index_put_(({i} % {x}.shape[0],), {y})",
    "{x}.index_add_(0, {i} % {x}.shape[0], {y})",
    "{x}.t_()",
    "{x}.unsqueeze_(0)",
    "{x}.view(-1)[1:].mul_(3)",
    "{x}.detach().add_(1)",
    "torch.add({x}, 1, out={y})",
)
NUMBERS = ("1", "0.5", "2.5", "-2", "True")
RANDOMS = (
    "torch.rand_like({f})",
    "torch.nn.functional.dropout({f}, 0.5)",
    "torch.bernoulli({f}.sigmoid())",
    "torch.randint(0, 5, (3,))",
    "torch.randn(2, 3)",
    "{f} + torch.randn(())",
    "torch.rand({x}.shape)",
)
# Of a side: none of these is pure, and none reads what another one stores but by S.
IMPURE = (
    "S.flag = True",
    "S.n = {k}",
    "S.n += 1",
    "S.text += 'a'",
    "S.text = told({x})",
    "S.t = {x}",
    "S.held = {x}",
    "S.held = [{x}, {k}]",
    "S.log.append({k})",
    "S.log.append({x})",
    "S.log.append(told({x}))",
    "S.log.clear()",
    "note({k})",
    "note({x})",
    "list(map(S.log.append, [1, 2]))",
    "P.grad = None",
    "(P * 2).sum().backward()",
    "{x} = {x} + len(S.log) + S.n",
)
EXITS = (
    "return {x}",
    "return None",
    "return ({x}, {k})",
    "return 'text'",
    "raise ValueError('a side')",
)
ON_VALUES = (
    "{x}.sum() > 0",
    "{f}.mean() < 0.1",
    "({x} > 0).any()",
    "{x}.sum() > 0 and {y}.sum() < 2",
)
CONDITIONS = (
    *ON_VALUES,
    "{x}.shape[0] > 2",
    "{x}.dim() == 2",
    "{x}.shape == {y}.shape",
    "k > 1",
    "{x}.is_floating_point()",
)
MODES = (
    *["torch.no_grad()"] * 4,
    *["torch.enable_grad()"] * 3,
    *["torch.set_grad_enabled(False)"] * 2,
    *["torch.set_grad_enabled(k > 2)"] * 2,
    'torch.autocast("cpu", torch.bfloat16)',
    "torch.inference_mode()",
)
LOOPS = (
    "for _ in range(2):",
    "for _ in range({x}.shape[0]):",
    "for i in range(k):",
    "while {x}.abs().sum() > {n}:",
)


class Writer:
    """A program under construction: its lines, and the variables as they are after the last of them."""

    def __init__(self, draw: Callable, names: list[str], namespace: dict) -> None:
        self.draw, self.namespace, self.known = draw, namespace, set(names)
        self.lines: list[str] = []
        self.made = 0
        self.left = 0
        self.in_side = False  # of an if on values

    def pick(self, options):
        return options[self.draw(len(options))]

    def tensors(self, fits: Callable = lambda t: True) -> list[str]:
        values = self.namespace
        return [
            n for n in sorted(self.known) if isinstance(values[n], torch.Tensor) and fits(values[n])
        ]

    def filled(self, template: str) -> str | None:
        """The template with names drawn for its holes; None where nothing fits one."""
        kinds = {
            "{x}": lambda t: True,
            "{y}": lambda t: True,
            "{f}": lambda t: t.is_floating_point(),
            "{m}": lambda t: t.dtype == torch.bool,
            "{i}": lambda t: t.dtype == torch.int64,
        }
        for hole, fits in kinds.items():
            if hole in template:
                names = self.tensors(fits)
                if not names:
                    return None
                template = template.replace(hole, self.pick(names))
        template = template.replace("{k}", str(self.draw(3)))
        return template.replace(
            "{n}", self.pick(NUMBERS if "while" not in template else NUMBERS[:3])
        )

    def runs(self, line: str) -> bool:
        try:
            exec(line, self.namespace)
        except Exception:
            return False
        return True

    def add(self, indent: str, line: str) -> None:
        self.lines.append(indent + line)
        self.left -= 1

    def statement(self, indent: str, depth: int, fixed: bool) -> None:
        """One statement or block. `fixed`: in a branch or loop, where a variable keeps dtype and shape."""
        kinds = (self.new,) * 5 + (self.view,) * 3 + (self.write,) * 4 + (self.random,)
        if depth < 2 and self.left > 2:
            kinds += (self.mode, self.branch, self.loop)
        self.pick(kinds)(indent, depth, fixed)

    def new(self, indent, depth, fixed, templates=NEW) -> None:
        expression = self.filled(self.pick(templates))
        if expression is None:
            return
        again = self.draw(3) == 0 or fixed
        if again:
            name = self.pick(self.tensors())
            old = self.namespace[name]
        else:
            name, old = f"v{self.made}", None
        if name in ("W", "P", "N"):
            return
        if not self.runs(f"_new = {expression}"):
            return
        value = self.namespace.pop("_new")
        if not isinstance(value, torch.Tensor) or value.numel() > 200:
            return
        if fixed and old is not None and (value.dtype, value.shape) != (old.dtype, old.shape):
            return
        self.made += old is None
        self.namespace[name] = value
        self.known.add(name)
        self.add(indent, f"{name} = {expression}")

    def view(self, indent, depth, fixed) -> None:
        self.new(indent, depth, fixed, VIEWS)

    def random(self, indent, depth, fixed) -> None:
        self.new(indent, depth, fixed, RANDOMS)

    def write(self, indent, depth, fixed) -> None:
        line = self.filled(self.pick(WRITES))
        if line is None:
            return
        name = line.split("[")[0].split(" ")[0].split(".")[0]
        if name in ("W", "P", "N") and (
            "t_()" in line or "unsqueeze_" in line or " += " in line or " *= " in line
        ):
            return  # would make it a local name, or change what other calls see as its shape
        if fixed and ("t_()" in line or "unsqueeze_" in line):
            return
        if self.runs(line):
            self.add(indent, line)

    def block(self, indent: str, depth: int, fixed: bool) -> None:
        before, count = len(self.lines), self.left
        for _ in range(1 + self.draw(3)):
            if self.left > 0:
                self.statement(indent + "    ", depth + 1, fixed)
        if len(self.lines) == before:
            self.lines.append(indent + "    pass")

    def mode(self, indent, depth, fixed) -> None:
        mode = self.pick(MODES)
        self.add(indent, f"with {mode}:")
        with eval(mode, self.namespace):
            self.block(indent, depth, fixed)

    def branch(self, indent, depth, fixed) -> None:
        template = self.pick(CONDITIONS)
        condition = self.filled(template)
        if condition is None or not self.runs(f"_truth = bool({condition})"):
            return
        self.add(indent, f"if {condition}:")
        outer, self.in_side = self.in_side, self.in_side or template in ON_VALUES
        if self.in_side:  # below an if of Python's alone, docs/rules/effects.md has another rule
            self.impure(indent, depth)
        self.aside(indent, depth)
        if self.draw(2):
            self.lines.append(f"{indent}else:")
            self.aside(indent, depth)
        self.in_side = outer

    def impure(self, indent, depth) -> None:
        """First in a side. It is not run here: what it stores is not known to the program's variables."""
        templates = IMPURE if self.draw(4) else EXITS
        line = self.filled(self.pick(templates)) if self.draw(3) == 0 else None
        if line is None or line.startswith(("W", "P =", "N")):
            return
        self.lines.append(f"{indent}    {line}")

    def loop(self, indent, depth, fixed) -> None:
        head = self.filled(self.pick(LOOPS))
        if head is None:
            return
        if head.startswith("while"):
            name = head.split(".")[0].split()[-1]
            if not self.namespace[name].is_floating_point() or name in ("W", "P", "N"):
                return
            if not self.runs(f"_truth = bool({head[6:-1]}); _half = {name} * 0.5"):
                return
            self.add(indent, head)
            self.aside(indent, depth)
            self.lines.append(f"{indent}    {name} = {name} * 0.25")
            # It ends for anything that the body did before that line.
            self.lines.append(
                f"{indent}    if k < 100:\n{indent}        break"
                if self.draw(2)
                else f"{indent}    {name} = {name} * 0"
            )
            return
        if not self.runs(f"{head}\n    pass"):
            return
        self.add(indent, head)
        self.aside(indent, depth)

    def aside(self, indent: str, depth: int) -> None:
        """A block that may not run: what it makes is not known after it."""
        names, values = set(self.known), dict(self.namespace)
        self.block(indent, depth, True)
        self.known = names
        self.namespace.update({n: values[n] for n in names})


def program(draw: Callable) -> str:
    """`draw(n)` gives a number below n. The source of a module with f and inputs(k)."""
    made = input_lines(draw)
    names = ["a", "b", "c"][: len(made)]
    inputs = ["def inputs(k):", "    g = torch.Generator().manual_seed(k)"]
    inputs += [f"    {n} = {text}" for n, text in zip(names, made)]
    inputs.append(f"    return {', '.join(names)},")
    source = HEADER + "\n".join(inputs) + "\n"
    namespace: dict = {}
    exec(source, namespace)
    namespace.update(zip(names, namespace["inputs"](0)), k=2, s=0.5)
    writer = Writer(draw, [*names, "W", "P", "N"], namespace)
    writer.left = 1 + draw(15)
    with contextlib.suppress(RecursionError), torch.random.fork_rng():
        torch.manual_seed(0)
        for _ in range(40):
            if writer.left <= 0:
                break
            writer.statement("    ", 0, False)
    results = [n for n in writer.tensors() if n not in ("W", "P", "N")]
    kept = [n for n in results if n.startswith("v") or draw(2)] or results[:1]
    outcome = ", ".join(kept)
    form = ("({0},)", "[{0}]", "{{'size': {1}.shape, 'values': [{0}]}}")[draw(3)]
    body = [f"def f({', '.join(names)}, k, s):", *writer.lines]
    body.append("    return " + form.format(outcome, kept[0]))
    return source + "\n\n" + "\n".join(body) + "\n"


def input_lines(draw: Callable) -> list[str]:
    shape = SHAPES[draw(len(SHAPES))]
    kinds = tuple(RANDOM)
    lines = [made(kinds[draw(len(kinds))], shape)]
    for _ in range(draw(3)):
        if draw(3) == 0:
            lines.append(ALIASES[draw(len(ALIASES))])
        else:
            lines.append(made(kinds[draw(len(kinds))], SHAPES[draw(len(SHAPES))]))
    return lines


def made(kind: str, shape: str) -> str:
    text = RANDOM[kind].format(shape=shape)
    return (
        text.replace("(,)", "()").replace("randn(, ", "randn((), ").replace("rand(, ", "rand((), ")
    )
