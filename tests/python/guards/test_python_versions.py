"""What Python's versions do in different ways, and a traced body must not show."""

import functools
import importlib.util
import sys
import types

import pytest
import torch
import tracehost
from environment_support import Config, X, same
from python_versions import (
    BOUND_PARTIALS,
    DEFERRED_ANNOTATIONS,
    FACTS_OF_A_CLASS,
    MONITORING,
    STORES_TO_F_LOCALS,
    TEMPLATE_STRINGS,
    TYPE_PARAMETER_DEFAULTS,
    TYPE_PARAMETERS,
)
from tracehost.testing import assert_traces

pytestmark = pytest.mark.filterwarnings("ignore::tracehost.RetraceWarning")


def needs(fact):
    return pytest.mark.skipif(not fact, reason="a newer Python has it")


@pytest.fixture
def module_of(tmp_path):
    """module_of(text): a module, for syntax that not all versions parse."""

    def make(text):
        file = tmp_path / "newer.py"
        file.write_text(text)
        spec = importlib.util.spec_from_file_location("newer", file)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    return make


# ---- an object's values: in the object, in its `__dict__`, or (from 3.13 on) in both ------------


def hit(f, body):
    """Calls it until all is compared by versions alone."""
    for _ in range(3):
        same(f, body, X)


class Setting:
    """Equal by its name."""

    def __init__(self, name, scale):
        self.name = name
        self.scale = scale

    def __eq__(self, other):
        return self.name == other.name

    def __hash__(self):
        return hash(self.name)


class Holder:
    def __init__(self):
        self.setting = Setting("a", 2.0)


def test_store_to_an_object_that_took_the_place_of_an_equal_one():
    holder = Holder()

    def body(x):
        return x * holder.setting.scale

    f = tracehost.function(body)
    hit(f, body)
    holder.setting = Setting("a", 2.0)
    hit(f, body)
    before = f.tracing_count()
    for scale in (3.0, 4.0, 2.0):
        holder.setting.scale = scale
        hit(f, body)
    assert f.tracing_count() == before + 2


def test_store_to_an_object_whose_dict_is_read():
    cfg = Config()
    values = vars(cfg)

    def body(x):
        return x * values["scale"]

    f = tracehost.function(body)
    with assert_traces(f, 3):
        hit(f, body)
        for scale in (3.0, 4.0, 2.0):
            cfg.scale = scale
            hit(f, body)


def test_store_to_an_object_that_lends_its_dict():
    lender, cfg = Config(), Config()
    cfg.__dict__ = lender.__dict__

    def body(x):
        return x * cfg.scale

    f = tracehost.function(body)
    with assert_traces(f, 2):
        hit(f, body)
        lender.scale = 3.0
        hit(f, body)


def test_store_to_an_object_that_got_another_dict():
    lender, cfg = Config(), Config()

    def body(x):
        return x * cfg.scale

    f = tracehost.function(body)
    with assert_traces(f, 3):
        hit(f, body)
        cfg.__dict__ = lender.__dict__
        hit(f, body)
        lender.scale = 3.0
        hit(f, body)
        del lender.scale
        lender.scale = 4.0
        hit(f, body)


def test_store_by_globals_that_are_an_objects_dict():
    cfg = Config()
    cfg.__dict__["__name__"] = "made_of_an_object"
    exec("def body(x):\n    return x * scale", vars(cfg))
    body = cfg.body
    f = tracehost.function(body)
    with assert_traces(f, 2):
        hit(f, body)
        cfg.scale = 3.0
        hit(f, body)


def test_an_iteration_over_an_objects_dict_goes_on():
    cfg = Config()
    cfg.lr = 0.25
    f = tracehost.function(lambda x: x * cfg.scale + cfg.lr)
    met = []
    for name in vars(cfg):
        f(X)
        met.append(name)
    assert met == list(vars(cfg)) == ["scale", "lr"]


# ---- sets ---------------------------------------------------------------------------------------


class Asked:
    """Counts how often it is asked for its hash, or what it equals."""

    count = 0

    def __hash__(self):
        Asked.count += 1
        return 1

    def __eq__(self, other):
        Asked.count += 1
        return self is other


def test_elements_of_a_set_are_not_asked():
    chosen = {"double", 3, Asked(), Asked()}

    def body(x):
        return x * len(chosen) * (2.0 if "double" in chosen else 1.0)

    f = tracehost.function(body)
    before = Asked.count
    with assert_traces(f, 3):
        same(f, body, X)
        same(f, body, X)
        assert Asked.count == before
        chosen.remove("double")
        same(f, body, X)
        chosen.add("triple")
        same(f, body, X)


def test_a_set_that_is_longer_than_what_is_guarded():
    chosen = {*range(2000)}

    def body(x):
        return x * (1.0 if 5 in chosen else 2.0)

    f = tracehost.function(body)
    same(f, body, X)
    same(f, body, X)
    chosen.remove(5)
    same(f, body, X)


# ---- variables of a frame -----------------------------------------------------------------------


def test_stores_to_f_locals():
    """From 3.13 on they reach the variable."""

    def body(x):
        k = 2.0
        sys._getframe().f_locals["k"] = 3.0
        return x * k

    factor = 3.0 if STORES_TO_F_LOCALS else 2.0
    assert torch.equal(body(X), X * factor)
    f = tracehost.function(body)
    with assert_traces(f, 1):
        for _ in range(3):
            assert torch.equal(f(X), X * factor)


def test_locals_of_a_body():
    """From 3.13 on each call of locals() gives a dict of its own."""

    def body(x):
        k = 2.0
        first = locals()
        k = 3.0
        second = locals()
        return x * first["k"] * second["k"]

    f = tracehost.function(body)
    for _ in range(3):
        same(f, body, X)


# ---- classes that a body defines ----------------------------------------------------------------


def test_docstring_of_a_class_of_the_body():
    """From 3.13 on it has lost its indentation, whoever compiles it."""

    def body(x):
        class Inner:
            """One line.

            Another one.
            """

        return x * float(len(Inner.__doc__))

    f = tracehost.function(body)
    for _ in range(3):
        same(f, body, X)


@needs(FACTS_OF_A_CLASS)
def test_facts_that_a_class_of_the_body_has_of_its_source():
    def body(x):
        class Inner:
            def store(self, flag):
                if flag > 0:
                    self.high = 1.0
                else:
                    self.low = 1.0

        names = len("".join(sorted(Inner.__static_attributes__)))
        return x * float(Inner.__firstlineno__) + names

    f = tracehost.function(body)
    for _ in range(3):
        same(f, body, X)


# ---- syntax -------------------------------------------------------------------------------------


@needs(TYPE_PARAMETERS)
def test_type_parameters_and_aliases(module_of):
    module = module_of(
        """
def body[T](x: T, flag=True) -> T:
    type Pair[S] = tuple[S, S]

    def double[U: float](value: U) -> U:
        return value * 2 if x.sum() > 0 else value

    class Box[V]:
        def __init__(self, held: V):
            self.held = held

    y = double(x)
    if y.sum() > 0:
        y = y + 1
    pair: Pair = (y, Box(y).held)
    return pair[0] + pair[1] * len(f"{"nested" + f"{len(Pair.__type_params__)}"}")
"""
    )
    f = tracehost.function(module.body)
    with assert_traces(f, 1):
        for x in (X, -X, X):
            same(f, module.body, x)
    assert f.__type_params__ == module.body.__type_params__


@needs(TYPE_PARAMETER_DEFAULTS)
def test_defaults_of_type_parameters(module_of):
    module = module_of(
        """
def body[T = int](x: T) -> T:
    class Box[V = float]:
        pass

    return x * 2 if x.sum() > 0 and Box.__type_params__[0].__default__ is float else x
"""
    )
    f = tracehost.function(module.body)
    with assert_traces(f, 1):
        for x in (X, -X, X):
            same(f, module.body, x)


@needs(TYPE_PARAMETERS)
def test_global_that_only_a_bound_reads(module_of):
    module = module_of(
        """
LIMIT = 2.0

def body(x):
    class Box:
        def get[T: (LIMIT, float)](self):
            pass

    return x * Box.get.__type_params__[0].__constraints__[0]
"""
    )
    f = tracehost.function(module.body)
    with assert_traces(f, 2):
        same(f, module.body, X)
        module.LIMIT = 3.0
        same(f, module.body, X)


@needs(TEMPLATE_STRINGS)
def test_template_strings(module_of):
    module = module_of(
        """
from string.templatelib import Interpolation

SCALE = 2.0

def body(x):
    total = 0.0
    for part in t"scale {SCALE} by {x.shape[0]:>4} {len(x) + 1!r}":
        if isinstance(part, Interpolation):
            total += part.value + len(part.expression) + len(part.format_spec)
    if x.sum() > 0:
        x = x + 1
    return x * total
"""
    )
    f = tracehost.function(module.body)
    with assert_traces(f, 1):
        for x in (X, -X, X):
            same(f, module.body, x)
    module.SCALE = 3.0
    with assert_traces(f, 1):
        same(f, module.body, X)


@needs(DEFERRED_ANNOTATIONS)
def test_annotations_of_functions_and_classes_of_the_body(module_of):
    """What they name is read when they are asked for."""
    module = module_of(
        """
LIMIT = 2.0

def body(x):
    def scale(y: LIMIT) -> Later:
        return y * 2 if x.sum() > 0 else y

    class Box:
        held: LIMIT + 1

    return scale(x) * scale.__annotations__["y"] + Box.__annotations__["held"]

Later = int
"""
    )
    f = tracehost.function(module.body)
    with assert_traces(f, 1):
        for x in (X, -X, X):
            same(f, module.body, x)
    module.LIMIT = 3.0
    with assert_traces(f, 1):
        same(f, module.body, X)


@needs(DEFERRED_ANNOTATIONS)
def test_annotations_of_a_function_from_outside(module_of):
    module = module_of(
        """
LIMIT = 2.0

def scale(y: LIMIT):
    pass

def body(x):
    return x * scale.__annotations__["y"]
"""
    )
    f = tracehost.function(module.body)
    with assert_traces(f, 2):
        same(f, module.body, X)
        same(f, module.body, X)
        module.scale.__annotations__["y"] = 3.0
        same(f, module.body, X)


@needs(DEFERRED_ANNOTATIONS)
def test_an_annotation_that_names_nothing(module_of):
    module = module_of(
        """
def body(x: Nothing, y: Nothing = 2.0) -> Nothing:
    def scale(z: Nothing):
        return z * y if x.sum() > 0 else z

    return scale(x)
"""
    )
    f = tracehost.function(module.body)
    with assert_traces(f, 1):
        for x in (X, -X, X):
            same(f, module.body, x)


# ---- partials -----------------------------------------------------------------------------------


def scaled(*arguments, by):
    return arguments[-1] * by * len(arguments)


class WithPartial:
    double = functools.partial(scaled, by=2.0)


def test_a_partial_of_a_class(monkeypatch):
    """From 3.14 on it gets the instance."""
    holder = WithPartial()
    arguments = 2 if BOUND_PARTIALS else 1

    def body(x):
        return holder.double(x)

    f = tracehost.function(body)
    with assert_traces(f, 2):
        for by in (2.0, 3.0):
            monkeypatch.setattr(WithPartial, "double", functools.partial(scaled, by=by))
            for _ in range(3):
                assert torch.equal(f(X), X * by * arguments)


# ---- other tools that watch code ----------------------------------------------------------------

SCALE = 2.0


@needs(MONITORING)
def test_code_that_another_tool_monitors(monkeypatch):
    """Its instructions are replaced while the tool is there."""

    def helper(x):
        return x * SCALE

    def body(x):
        cfg = types.SimpleNamespace(k=1.0)
        return helper(x) * getattr(cfg, "k")

    seen = []
    monitoring = sys.monitoring
    events = monitoring.events
    monitoring.use_tool_id(monitoring.DEBUGGER_ID, "test")
    try:
        for event in (events.LINE, events.INSTRUCTION, events.CALL):
            monitoring.register_callback(monitoring.DEBUGGER_ID, event, lambda *a: seen.append(a))
        monitoring.set_events(
            monitoring.DEBUGGER_ID, events.LINE | events.INSTRUCTION | events.CALL
        )
        body(X)
        f = tracehost.function(body)
        same(f, body, X)
        monkeypatch.setattr(sys.modules[__name__], "SCALE", 3.0)
        same(f, body, X)
    finally:
        monitoring.set_events(monitoring.DEBUGGER_ID, 0)
        monitoring.free_tool_id(monitoring.DEBUGGER_ID)
    assert seen
    monkeypatch.setattr(sys.modules[__name__], "SCALE", 4.0)
    same(f, body, X)
    assert f.tracing_count() == 3


def test_profile_function_of_the_program_stays():
    seen = []

    def profile(frame, event, argument):
        seen.append(event)

    f = tracehost.function(lambda x: x * 2)
    sys.setprofile(profile)
    try:
        f(X)
        assert sys.getprofile() is profile
    finally:
        sys.setprofile(None)
    assert "call" in seen and "return" in seen and "c_call" in seen
