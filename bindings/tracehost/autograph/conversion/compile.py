"""From a function to the converted one: tree, code, function object; what was decided is kept by code object."""

from __future__ import annotations
import __future__

import ast
import copy
import functools
import os
import weakref
from collections.abc import Iterable
from types import CellType, CodeType, FunctionType
from typing import Any

from ..._tracehost import is_of_signal, note_edited, unobserved
from . import nodes, policy
from .rejection import rejection
from .scopes import parameters_of
from .source import Edited, NoSource, codes_below, imports_of, is_code_of, tree_of
from .statements import outer_function
from .text import Text

_FEATURES = 0
for _name in __future__.all_feature_names:
    _FEATURES |= getattr(__future__, _name).compiler_flag

_FACTORY = "ag__factory"
_FUNCTION = "ag__function"
_GENERATED = "ag__"

Left = list[tuple[int, int, str]]


class Conversion:
    """What became of one code object: converted code, or why there is none."""

    __slots__ = ("cells", "code", "edited", "left", "reason", "source")

    def __init__(
        self, source: CodeType, code: CodeType | None, reason: str | None, left: Left
    ) -> None:
        self.source = weakref.ref(source)
        self.code = code
        self.reason = reason
        self.left = left  # lines that stay Python's, and why
        self.edited = False  # its file says something else now
        # for each free variable its index in the original's, -1: the operators
        self.cells: list[int] = []
        if code is not None:
            free = source.co_freevars
            self.cells = [-1 if n == nodes.OPERATORS else free.index(n) for n in code.co_freevars]


_conversions: dict[int, Conversion] = {}
# For each converted one: itself, the user's, whether it is a block or an operand, run by an operator.
_originals: dict[int, tuple[weakref.ref[CodeType], weakref.ref[CodeType], bool]] = {}
_operators_cell: CellType | None = None


def _forget() -> None:
    """Decide again about functions that were left alone."""
    for key, made in list(_conversions.items()):
        if made.reason is not None or policy._rejected:
            _conversions.pop(key, None)


policy.on_change.append(_forget)


def converted(function: FunctionType) -> FunctionType:
    """The function with its control flow as operators' calls, or the function itself."""
    return unobserved(_converted, function)


def _converted(function: FunctionType) -> FunctionType:
    made = conversion_of(function)
    if made.code is None:
        if made.edited:
            source = function.__code__
            file = os.path.basename(source.co_filename)
            note_edited(f"{source.co_qualname} ({file}:{source.co_firstlineno})")
        return function
    cells: Any = [*(function.__closure__ or ()), _operators_cell]
    return copy_of(function, made.code, tuple([cells[i] for i in made.cells]))


def copy_of(
    function: FunctionType, code: CodeType, cells: tuple[CellType, ...] | None
) -> FunctionType:
    """A function that differs in nothing but its code and closure."""
    result = FunctionType(code, function.__globals__, "", function.__defaults__, cells)
    result.__kwdefaults__ = function.__kwdefaults__
    functools.update_wrapper(result, function)
    del result.__wrapped__  # type: ignore[attr-defined]
    # A later call may find that one again.
    result.__dict__.update(function.__dict__, __ag_original__=function)
    return result


def conversion_of(function: FunctionType) -> Conversion:
    """The cached conversion of the function's code; made now if there is none."""
    source = function.__code__
    made = _conversions.get(id(source))
    if made is not None and made.source() is source:
        return made
    made = _conversions[id(source)] = _convert(function)
    weakref.finalize(source, _drop, id(source), made).atexit = False
    return made


def _drop(key: int, made: Conversion) -> None:
    if _conversions.get(key) is made:
        del _conversions[key]


def _convert(function: FunctionType) -> Conversion:
    source = function.__code__
    edited = False
    reason = "it is converted already" if original_code(source) else policy.left_alone(function)
    if reason is None:
        try:
            tree, left = converted_tree(function)
            return Conversion(source, _compile(tree, source), None, left)
        except NoSource as error:
            reason = str(error)
            edited = isinstance(error, Edited)
        except Exception as error:  # tracehost's fault must not stop the user's function
            if is_of_signal(error):
                raise
            reason = f"autograph could not convert it: {type(error).__name__}: {error}"
    made = Conversion(source, None, reason, [])
    made.edited = edited
    return made


def converted_tree(function: FunctionType) -> tuple[ast.AST, Left]:
    """The function's tree after conversion, without decorators, defaults and annotations."""
    tree, text = tree_of(function)
    _strip(tree)
    source = function.__code__
    if not is_code_of(_code_of(tree, source, imports_of(source)), source):
        raise Edited(source)
    facts = Text(text)
    why = rejection(tree, facts)
    if why is not None:
        raise NoSource(why)
    return outer_function(tree, facts, function.__code__.co_freevars)  # type: ignore[arg-type]


def _strip(tree: Any) -> None:
    """Leave out what was evaluated when the function was defined: the function object has it."""
    arguments = tree.args
    arguments.defaults = []
    arguments.kw_defaults = [None] * len(arguments.kwonlyargs)
    if isinstance(tree, ast.Lambda):
        return
    tree.decorator_list = []
    tree.returns = None
    if hasattr(tree, "type_params"):
        tree.type_params = []
    for argument in parameters_of(arguments):
        argument.annotation = None


def _compile(tree: Any, source: CodeType) -> CodeType:
    code = _code_of(tree, source)
    originals: Originals = {}
    for inner_code in codes_below(source):
        originals.setdefault((inner_code.co_name, inner_code.co_firstlineno), []).append(inner_code)
    return _as_users(code, source, originals)


def _code_of(tree: Any, source: CodeType, imports: Iterable[str] = ()) -> CodeType:
    """Compile within a factory, whose parameters are the closure's variables. `imports`: those of its module."""
    if isinstance(tree, ast.Lambda):
        inner: ast.stmt = ast.Return(tree)
    else:
        inner = copy.copy(tree)
        inner.name = _FUNCTION  # its own would be a variable of the factory, and hide the user's
    arguments = nodes.one_argument(nodes.OPERATORS)
    arguments.args += [ast.arg(n) for n in source.co_freevars]
    factory = nodes.placed(nodes.define(_FACTORY, arguments, [inner]), tree)
    imported = [nodes.placed(ast.Import([ast.alias(n)]), tree) for n in imports]
    module = nodes.complete(ast.Module([*imported, factory], []))
    flags = source.co_flags & _FEATURES
    whole = compile(module, source.co_filename, "exec", flags=flags, dont_inherit=True)
    factory = next(c for c in whole.co_consts if isinstance(c, CodeType))
    return next(
        c
        for c in factory.co_consts
        if isinstance(c, CodeType) and c.co_name in (_FUNCTION, "<lambda>")
    )


Originals = dict[tuple[str, int], list[CodeType]]


def _as_users(
    code: CodeType, user: CodeType, originals: Originals, generated: bool = False
) -> CodeType:
    """The code and those below it with the user's names, registered with what they were made from.

    `user`: the function of the user's that the code is a part of.
    """
    constants = []
    for value in code.co_consts:
        if isinstance(value, CodeType):
            constants.append(_inner(value, user, originals))
        elif isinstance(value, str) and value == code.co_qualname:
            constants.append(user.co_qualname)  # a class body's __qualname__
        else:
            constants.append(value)
    name, qualified = user.co_name, user.co_qualname
    made = code.replace(co_name=name, co_qualname=qualified, co_consts=tuple(constants))
    key = id(made)
    own = weakref.ref(made, lambda _: _originals.pop(key, None))
    _originals[key] = own, weakref.ref(user), generated
    return made


def _inner(code: CodeType, user: CodeType, originals: Originals) -> CodeType:
    if code.co_name.startswith(_GENERATED) or nodes.THUNK in code.co_varnames[:1]:
        return _as_users(code, user, originals, generated=True)
    found = originals.get((code.co_name, code.co_firstlineno), ())
    if len(found) > 1:
        found = [c for c in found if _begins(c) == _begins(code)] or found
    return _as_users(code, found[0] if found else user, originals)


def _begins(code: CodeType) -> tuple[int, int]:
    """Where its body begins, which distinguishes two lambdas on a line."""
    places = [(p[0], p[2]) for p in code.co_positions() if p[0] and p[2] and p[3]]
    return min(places, default=(0, 0))  # type: ignore[type-var, return-value]


def original_code(code: CodeType) -> CodeType | None:
    """The user's code object that a converted one was made from; None for code that was not converted."""
    entry = _originals.get(id(code))
    return entry[1]() if entry is not None and entry[0]() is code else None


def is_generated(code: CodeType) -> bool:
    """Whether it is a part of a converted function: a block or an operand, run by an operator."""
    entry = _originals.get(id(code))
    return entry is not None and entry[0]() is code and entry[2]


def unconverted(code: CodeType, line: int | None = None) -> str | None:
    """Why a condition in this code (at this line) is Python's; None where an operator decides."""
    original = original_code(code)
    source = original or code
    made = _conversions.get(id(source))
    if made is None or made.source() is not source:
        made = _around(source)
    if made is None:
        return None if original is not None else policy.left_alone_file(code) or _NEVER_SEEN
    if made.reason is not None:
        return made.reason
    fitting = [e for e in made.left if line is not None and e[0] <= line <= e[1]]
    return min(fitting, key=lambda e: e[1] - e[0])[2] if fitting else None


_NEVER_SEEN = (
    "autograph did not see it called: it follows calls in the user's own code, not properties, operators "
    "(__add__ and the like), nor what a library or a cached function calls"
)


def _around(code: CodeType) -> Conversion | None:
    """The conversion of the function that the code is nested in."""
    for made in list(_conversions.values()):
        source = made.source()
        if source is None or source.co_filename != code.co_filename:
            continue
        if any(inner is code for inner in codes_below(source)):
            return made
    return None
