"""Fixes: what a user can write to keep causes from happening, and what each of them would have done to the calls."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from .calls import passes
from .causes import Cause
from .changes import changed, padded, root
from .declared import Declared, declare
from .numbers import Numbers, are_numbers, varies_as_number
from .records import Account
from .replay import is_reducible
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
            text, covers = padded(self._account, self._causes, index)
            return Remedy(text, covers, "pad")
        if varies_as_number(cause):
            return self._number(cause)
        if cause.kind == "type" and set(cause.values) == {"list", "tuple"}:
            return self._passing(cause.path, "tuple({0})", [index])
        return Remedy(changed(cause, account, self.numbers), [index])

    def _unread(self, cause: Cause) -> Remedy:
        name = root(cause.path)
        covers = [
            index
            for index, other in enumerate(self._causes)
            if other.differs and self.is_unread(other) and root(other.path) == name
        ]
        return self._passing(name, "None", covers, ": the body never reads it")

    def _passing(self, path: str, pattern: str, covers: list[int], more: str = "") -> Remedy:
        text = passes(self._account, path, pattern) + more
        return Remedy(text, covers, passes={path: pattern.format(path)})

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
        if self.numbers.use(cause.path) != Use.COUNT:
            more = ": a tensor's value is not part of the signature"
            return self._passing(cause.path, tensor, covers, more)
        if not cause.path.isidentifier():
            return Remedy("", covers)
        begins = f"{cause.path} = int({cause.path})"
        made = self._passing(cause.path, tensor, covers, f", and begin the body with {begins}")
        return replace(made, begins=begins)


def power_of_two(least: int) -> int:
    return 1 << (least - 1).bit_length()
