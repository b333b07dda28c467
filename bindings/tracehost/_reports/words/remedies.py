"""Fixes: what a user can write to keep causes from happening, and what each of them would have done to the calls."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace

from .causes import Cause, quoted
from .declared import Declared, declare
from .numbers import Numbers, are_numbers, varies_as_number
from .records import Account
from .replay import is_reducible
from .source import parsed
from .uses import Use

# By file and line of the definition: the target of --trace that made the Function.
traced: dict[tuple[str, int], str] = {}


@dataclass
class Remedy:
    text: str
    covers: list[int] = field(default_factory=list)  # indices of causes
    kind: str = "change"  # "reduce", "declare", "pad"; "change": of the calls
    declared: Declared | None = None
    # What `tracehost fix` can write: options of the decorator, arguments by path, the first line of the body.
    options: dict[str, str] = field(default_factory=dict)
    passes: dict[str, str] = field(default_factory=dict)
    begins: str = ""


def option(account: Account, name: str, value: str) -> str:
    """`@tracehost.function(limit=8)`; of a Function of --trace `--trace net:step,limit=8`."""
    place = account.definition
    target = traced.get((place.file, place.line)) if place else None
    if target is None:
        return f"@tracehost.function({name}={value})"
    return f"{target},{name}" if value == "True" else f"{target},{name}={value}"


class Remedies:
    """The fixes for the causes of an account: those alone that are possible, and not applied already."""

    def __init__(self, causes: list[Cause], account: Account) -> None:
        self._causes, self._account = causes, account
        self.numbers = Numbers(account)

    def found(self) -> list[Remedy]:
        """At most one of reduce_retracing and of an input_signature, then those for single causes."""
        result = []
        if not self._account.declared and not self._is_exact():
            result += [] if self._account.reduces else [self._reduce()]
            result += self._declare()
        covered: set[int] = set()
        for index, cause in enumerate(self._causes):
            if index in covered:
                continue  # another dimension of an argument that is padded, another type of a number
            remedy = self._of(index, cause)
            covered.update(remedy.covers)
            result.append(remedy)
        return [one for one in result if one.text and one.covers]

    def is_unread(self, cause: Cause) -> bool:
        """Whether the argument's parameter is never read by the body."""
        definition = self.numbers.definition
        of_argument = cause.differs and cause.kind not in (
            "context",
            "guard",
            "capture",
            "condition",
            "read",
        )
        return bool(
            of_argument and definition and not any(map(definition.reads, map(root, cause.paths)))
        )

    def specialized(self, cause: Cause) -> list[str]:
        """A sentence for each size that the cause names and the body needs as a number: no decorator helps."""
        sentences = [
            one.sentence
            for record in self._account.window
            for one in record.specialized
            if cause.kind == "shape"
            and one.dimension == cause.dimension
            and one.path in cause.paths
        ]
        return sorted(set(sentences))

    def _is_exact(self) -> bool:
        """Whether no decorator helps: the body depends on which object it gets, on strides, which change with a dynamic
        size, or on a size as Python's own number."""
        for cause in self._causes:
            if cause.kind == "object" and self.numbers.needs_identity(root(cause.path)):
                return True
            if cause.kind == "layout" and any(one.startswith("strides") for one in cause.values):
                return True
            if cause.kind == "shape" and any(self.numbers.needs_size(path) for path in cause.paths):
                return True
        return False

    def _reduce(self) -> Remedy:
        reducible = [
            record for record in self._account.window if record.differences and is_reducible(record)
        ]
        alone = {
            (one.cause, one.path) for record in reducible for one in record.differences
        }  # in a record whose every difference reduce_retracing takes
        covers = [
            index
            for index, cause in enumerate(self._causes)
            if (cause.kind == "shape" and not self.specialized(cause))
            or (cause.kind in ("object", "capture") and (cause.kind, cause.path) in alone)
        ]
        return self._option("reduce_retracing", "True", covers, "reduce")

    def _option(self, name: str, value: str, covers: list[int], kind: str = "change") -> Remedy:
        options = {} if self._target() else {name: value}
        return Remedy(option(self._account, name, value), covers, kind, options=options)

    def _target(self) -> str | None:
        place = self._account.definition
        return traced.get((place.file, place.line)) if place else None

    def _declare(self) -> list[Remedy]:
        if self._target():
            return []  # no option of --trace
        found = declare(self._account.records, self.numbers.dtype)
        if found is None:
            return []
        counts = [path for path in found.numbers if self.numbers.use(path) == Use.COUNT]
        if counts:
            return []  # the body needs int() of it, too
        covers = [
            index
            for index, cause in enumerate(self._causes)
            if cause.kind in ("shape", "rank") or varies_as_number(cause)
        ]
        text = f"@tracehost.function(input_signature={found.text})"
        return [Remedy(text, covers, "declare", found, {"input_signature": found.text})]

    def _of(self, index: int, cause: Cause) -> Remedy:
        account = self._account
        if cause.kind == "again":
            return Remedy(
                f"apply @tracehost.function once, above the loop, to {account.name} "
                f"({account.place}), and call what it returns",
                [index],
            )
        if cause.kind == "cleared":
            return Remedy(f"call no clear() of {account.name} between the calls", [index])
        if cause.kind == "evicted":
            needed = max(account.signatures, account.limit + 1)
            remedy = self._option("limit", str(power_of_two(needed)), [index])
            return replace(remedy, text=f"raise the limit: {remedy.text}")
        if not cause.differs:
            return Remedy("")
        if self.is_unread(cause):
            return self._unread(cause)
        if cause.kind == "shape":
            return self._pad(index)
        if varies_as_number(cause):
            return self._number(cause)
        if cause.kind == "type" and set(cause.values) == {"list", "tuple"}:
            given = f"tuple({cause.path})"
            text = f"pass {given} for {quoted(cause.path)}"
            return Remedy(text, [index], passes={cause.path: given})
        return Remedy(self._change(cause), [index])

    def _unread(self, cause: Cause) -> Remedy:
        name = root(cause.path)
        covers = [
            index
            for index, other in enumerate(self._causes)
            if other.differs and self.is_unread(other) and root(other.path) == name
        ]
        text = f"pass None for {quoted(name)}: the body never reads it"
        return Remedy(text, covers, passes={name: "None"})

    def _number(self, cause: Cause) -> Remedy:
        """One for the value and the type of a number."""
        covers = [
            index
            for index, other in enumerate(self._causes)
            if varies_as_number(other) and other.path == cause.path
        ]
        values = [
            value
            for index in covers
            for value in self._causes[index].values
            if are_numbers([value])
        ]
        tensor = self.numbers.tensor(cause.path, values)
        if not tensor or self._account.declared:
            return Remedy("", covers)
        if any("Tensor" in self._causes[index].values for index in covers):
            tensor = tensor.replace("tensor(", "as_tensor(", 1)  # some calls pass one
        text = f"pass {tensor} for {quoted(cause.path)}"
        if self.numbers.use(cause.path) != Use.COUNT:
            text = f"{text}: a tensor's value is not part of the signature"
            return Remedy(text, covers, passes={cause.path: tensor})
        if not cause.path.isidentifier():
            return Remedy("", covers)
        begins = f"{cause.path} = int({cause.path})"
        text = f"{text}, and begin the body with {begins}"
        return Remedy(text, covers, passes={cause.path: tensor}, begins=begins)

    def _pad(self, first: int) -> Remedy:
        """One for all dimensions of an argument that changed."""
        cause = self._causes[first]
        covers, sizes = [], {}
        for index, other in enumerate(self._causes):
            if other.kind == "shape" and other.paths == cause.paths and index >= first:
                covers.append(index)
                sizes[other.dimension] = max(int(value) for value in other.values)
        pads = [_padded(p, r, sizes) for p, r in zip(cause.paths, cause.ranks, strict=True)]
        texts = [
            f"pass {pad} for {quoted(path)}"
            for pad, path in zip(pads[:2], cause.paths, strict=False)
        ]
        more = ", and so on" if len(pads) > 2 else ""
        is_odd = len(sizes) == 1 and cause.dimension == 0 and len(cause.values) == 2
        drop = "drop the odd last batch, DataLoader(..., drop_last=True), or " if is_odd else ""
        return Remedy(
            f"{drop}{', and '.join(texts)}{more}: padding changes results that depend on all elements",
            covers,
            "pad",
        )

    def _change(self, cause: Cause) -> str:
        path = cause.path
        if cause.kind == "dtype":
            return f"{_passed(cause, f'{{0}}.to(torch.{cause.values[0]})')}: results are then those of {cause.values[0]}"
        if cause.kind == "device":
            device = next((one for one in cause.values if one != "cpu"), cause.values[0])
            return _passed(cause, f"{{0}}.to('{device}')")
        if cause.kind == "requires_grad" and set(cause.values) <= {"True", "False"}:
            return _passed(cause, "{0}.detach()") + ": where no gradient is needed"
        if cause.kind == "subclass":
            return _passed(cause, "{0}.as_subclass(torch.Tensor)")
        if cause.kind == "layout":
            return self._layout(cause)
        if cause.kind == "alias":
            return f"pass {path}.clone() for {quoted(path)} where it is the same tensor as another argument"
        if cause.kind == "object" and len(cause.values) == 1 and not self._is_exchangeable(cause):
            return f"create {quoted(path)} once, outside the loop, and pass the same object"
        if cause.kind == "guard" and are_numbers(cause.values):
            return self._slot(cause)
        if cause.kind == "context":
            return _context(cause, self._account)
        return ""

    def _layout(self, cause: Cause) -> str:
        for word, pattern in _LAYOUTS.items():
            if any(word in value for value in cause.values):
                return _passed(cause, pattern)
        return ""

    def _is_exchangeable(self, cause: Cause) -> bool:
        return any(cause.path in record.exchangeable for record in self._account.records)

    def _slot(self, cause: Cause) -> str:
        """A number that is kept in a global, an attribute or an enclosing function: a tensor there, written in place."""
        slot = written(cause.path)
        if not slot:
            return ""
        tensor = self.numbers.tensor(slot, cause.values)
        if not tensor or self.numbers.use(slot) != Use.ARITHMETIC:
            return ""
        return (
            f"keep {tensor} in {quoted(slot)}, and change it by {slot}.fill_(...): "
            "a tensor's value is not part of the signature"
        )


_LAYOUTS = {
    "inference": "{0}.clone()",
    "conj": "{0}.resolve_conj()",
    "neg": "{0}.resolve_neg()",
    "sparse": "{0}.to_dense()",
    "mkldnn": "{0}.to_dense()",
}

_MANAGERS = {"grad mode": "torch.no_grad()", "inference mode": "torch.inference_mode()"}


def _context(cause: Cause, account: Account) -> str:
    field = cause.path
    manager = "torch.autocast(...)" if field.startswith("autocast") else _MANAGERS.get(field)
    if not manager:
        return f"keep the {field} as it is for all calls to {account.name}"
    return f"call {account.name} under one {field}: {manager} around all its calls or around none"


def _passed(cause: Cause, pattern: str) -> str:
    """`pass x.to(torch.float32) for 'x'`, for each argument."""
    texts = [f"pass {pattern.format(path)} for {quoted(path)}" for path in cause.paths[:2]]
    return ", and ".join(texts) + (", and so on" if len(cause.paths) > 2 else "")


def _padded(path: str, rank: int, sizes: dict[int, int]) -> str:
    """F.pad counts its pairs from the last dimension back."""
    rank = max(rank, max(sizes) + 1)
    pairs = [
        f"0, {sizes[d]} - {path}.shape[{d}]" if d in sizes else "0, 0"
        for d in range(rank - 1, min(sizes) - 1, -1)
    ]
    return f"torch.nn.functional.pad({path}, ({', '.join(pairs)}))"


def root(path: str) -> str:
    """`batch` of `batch['image']`"""
    return re.split(r"[.\[]", path, maxsplit=1)[0]


def written(path: str) -> str:
    """What a user writes on the left of `=` for the path of a guard: `scale` for `scale (net.py)`. Empty: nothing can
    be written there."""
    text = re.sub(r" \([^()]*\)$", "", path).removeprefix("nonlocal ")
    node = parsed(text)
    return (
        text
        if node is not None and type(node).__name__ in ("Name", "Attribute", "Subscript")
        else ""
    )


def power_of_two(least: int) -> int:
    return 1 << (least - 1).bit_length()
