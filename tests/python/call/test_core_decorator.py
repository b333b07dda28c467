"""The decorator and the object that it returns: options, names, copies, lifetime."""

import copy
import functools
import gc
import inspect
import io
import pickle
import subprocess
import sys
import weakref

import pytest
import torch
import tracehost
from conftest import HOST, clean_environment
from tracehost.testing import assert_traces

pytestmark = pytest.mark.filterwarnings("ignore::tracehost.RetraceWarning")

X = torch.arange(3.0)


@tracehost.function
def importable(x, n: int = 2):
    """Doc."""
    return x * n


def plain(x):
    return x * 2


class Owner:
    @tracehost.function
    def method(self, x):
        return x * 3


def test_all_forms_of_the_decorator():
    for made in (
        tracehost.function(plain),
        tracehost.function()(plain),
        tracehost.function(limit=3)(plain),
        tracehost.function(plain, limit=3, watch=False, name="other", autograph=False),
        tracehost.function(func=plain),
    ):
        assert isinstance(made, tracehost.Function) and torch.equal(made(X), X * 2)
        assert made.python_function is plain


def test_it_looks_like_the_function():
    assert importable.__name__ == importable.name == "importable"
    assert importable.__doc__ == "Doc." and importable.__module__ == __name__
    assert importable.__qualname__ == "importable"
    assert importable.__wrapped__ is importable.python_function
    assert list(inspect.signature(importable).parameters) == ["x", "n"]
    assert importable.__annotations__ == {"n": int}
    assert importable.input_signature is None and callable(importable)


def test_names_and_repr():
    f = tracehost.function(plain, name="step")
    line = plain.__code__.co_firstlineno
    place = f"step at test_core_decorator.py:{line}"
    assert f.name == "step" and repr(f) == f"<tracehost.Function {place}, 0 specializations>"
    f(X)
    assert repr(f) == f"<tracehost.Function {place}, 1 specialization>"
    assert tracehost.function(lambda x: x).name == "<lambda>"


def test_attributes_can_be_set():
    f = tracehost.function(plain)
    f.note = 5
    assert f.note == 5 and f.__dict__["note"] == 5


@pytest.mark.parametrize(
    ("option", "meant"),
    [
        ("limits", "limit"),
        ("retrace_limit", "limit"),
        ("input_signatures", "input_signature"),
        ("signature", "input_signature"),
        ("reduce_retrace", "reduce_retracing"),
        ("experimental_relax_shape", "reduce_retracing"),
        ("auto_graph", "autograph"),
        ("value_read", "value_reads"),
        ("executor", "optimize"),
        ("optimise", "optimize"),
        ("fn", None),
        ("option", None),
        ("mode", None),
    ],
)
def test_a_misspelt_option(option, meant):
    text = f"tracehost.function has no option {option!r}"
    if meant:
        text += f"; did you mean {meant!r}?"
    else:
        text += (
            "; its options are input_signature, name, limit, watch, reduce_retracing, autograph, value_reads, validate, "
            "optimize"
        )
    for make in (
        lambda: tracehost.function(**{option: 3}),
        lambda: tracehost.function(plain, **{option: 3}),
    ):
        with pytest.raises(TypeError) as caught:
            make()
        assert str(caught.value) == text


SPEC = tracehost.TensorSpec([2])
SHOWN = "TensorSpec(shape=(2,), dtype=torch.float32, name=None)"


@pytest.mark.parametrize(
    ("given", "shown", "signature"),
    [
        ([SPEC], f"[{SHOWN}]", f"[{SHOWN}]"),
        (({"a": SPEC},), f"({{'a': {SHOWN}}},)", f"({{'a': {SHOWN}}},)"),
        (SPEC, SHOWN, f"[{SHOWN}]"),
        ([], "[]", "[]"),
    ],
)
def test_a_signature_in_place_of_the_function(given, shown, signature):
    with pytest.raises(TypeError) as caught:
        tracehost.function(given)
    assert str(caught.value) == (
        f"tracehost.function takes a function first, got {shown}. Is that its input_signature? Then write "
        f"@tracehost.function(input_signature={signature.replace(SHOWN, 'tracehost.' + SHOWN)})"
    )
    remedy = str(caught.value).rpartition("(input_signature=")[2][:-1]
    names = {"tracehost": tracehost, "torch": torch}
    assert tracehost.function(input_signature=eval(remedy, names)) is not None


def test_the_signature_may_come_second():
    f = tracehost.function(lambda x: x * 2, [tracehost.TensorSpec([None])])
    with assert_traces(f, 1):
        assert [f(torch.ones(n)).tolist() for n in (1, 2)] == [[2.0], [2.0, 2.0]]


def test_wrong_values_of_options():
    with pytest.raises(ValueError, match="limit must be at least 1, got 0"):
        tracehost.function(plain, limit=0)
    with pytest.raises(ValueError, match="limit must be at least 1, got -1"):
        tracehost.function(limit=-1)
    for wrong in ("3", 2.0, True, None):
        with pytest.raises(TypeError, match="limit must be an int"):
            tracehost.function(plain, limit=wrong)
    with pytest.raises(TypeError, match="5 is not a callable object"):
        tracehost.function(5)


def test_errors_are_what_the_package_says():
    assert issubclass(tracehost.SignatureError, TypeError)
    assert issubclass(tracehost.ValueReadError, TypeError)
    for name in ("Signature", "ValueRead", "Staging", "Capture", "Archive", "Trace"):
        assert issubclass(getattr(tracehost, name + "Error"), tracehost.Error)
    for name in ("Retrace", "SideEffect", "Trace"):
        assert issubclass(getattr(tracehost, name + "Warning"), UserWarning)


def test_an_importable_function_is_pickled_by_reference():
    importable(X)
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        assert pickle.loads(pickle.dumps(importable, protocol)) is importable
    assert copy.copy(importable) is importable and copy.deepcopy(importable) is importable
    assert pickle.loads(pickle.dumps(Owner.method)) is Owner.method


def test_a_bound_method_is_pickled():
    method = pickle.loads(pickle.dumps(Owner().method))
    assert torch.equal(method(X), X * 3)


def test_a_function_of_an_importable_callable_is_pickled_with_an_empty_cache():
    f = tracehost.function(plain, name="other", limit=2)
    f(X)
    g = pickle.loads(pickle.dumps(f))
    assert g is not f and g.python_function is plain
    assert g.stats()["live"] == g.tracing_count() == 0 and torch.equal(g(X), X * 2)
    assert g.name == "other"
    for n in range(1, 5):
        g(torch.ones(n))
    assert g.stats()["live"] == 2


def test_a_module_as_a_function_is_pickled_with_an_empty_cache():
    f = tracehost.function(torch.nn.Linear(3, 2))
    f(X)
    g = pickle.loads(pickle.dumps(f))
    assert torch.equal(g(X), f(X)) and g.python_function is not f.python_function


def test_what_cannot_be_pickled_says_so_in_a_sentence():
    f = tracehost.function(lambda x: x)
    with pytest.raises(
        pickle.PicklingError, match="can't be pickled: .*Define it at the top level"
    ):
        pickle.dumps(f)


def test_copies_of_local_functions():
    factor = 2.0
    f = tracehost.function(lambda x: x * factor)
    for g in (copy.copy(f), copy.deepcopy(f), copy.deepcopy({"f": f})["f"]):
        assert torch.equal(g(X), X * 2)


def test_a_saved_module_that_holds_a_function(tmp_path):
    module = torch.nn.Linear(3, 2)
    module.step = tracehost.function(plain)
    file = io.BytesIO()
    torch.save(module, file)
    file.seek(0)
    assert torch.equal(torch.load(file, weights_only=False).step(X), X * 2)


@pytest.fixture
def no_gc():
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def test_a_function_is_freed_by_its_last_reference(no_gc):
    def body(x, y):
        return x * y + 1

    f = tracehost.function(body)
    w = torch.ones(3)
    for n in range(2, 6):
        f(torch.ones(n), torch.ones(n)), f(torch.ones(n), torch.ones(n))
    f(X, w), f(X, w)
    freed = [weakref.ref(o) for o in (f, body, w)]
    del f, body, w
    assert [ref() for ref in freed] == [None] * 3


def test_captured_tensors_are_freed_with_the_function(no_gc):
    def make():
        w = torch.ones(3)
        f = tracehost.function(lambda x: x * w)
        f(X), f(X)
        return f, weakref.ref(w)

    f, w = make()
    assert w() is not None
    del f
    assert w() is None


def test_arguments_and_results_are_not_kept(no_gc):
    f = tracehost.function(lambda x, o: x * 2)

    class Thing:
        pass

    x, thing = torch.ones(2), Thing()
    y = f(x, thing)
    z = f(x, thing)
    freed = [weakref.ref(o) for o in (x, thing, y, z)]
    del x, thing, y, z
    assert [ref() for ref in freed] == [None] * 4


def test_a_function_in_a_cycle_is_collected():
    def make():
        @tracehost.function
        def f(x, n):
            return x if n == 0 else f(x, n - 1) * 2

        f(X, 2)
        f.self = f
        return weakref.ref(f)

    ref = make()
    gc.collect()
    assert ref() is None


def test_subclassing_and_making_one_without_init():
    empty = tracehost.Function.__new__(tracehost.Function)
    with pytest.raises(TypeError, match="was not initialised"):
        empty(X)


def test_methods_of_an_uninitialised_function_do_not_crash():
    program = (
        "import tracehost\n"
        "f = tracehost.Function.__new__(tracehost.Function)\n"
        "for ask in (repr, lambda f: f.stats(), lambda f: f.name, lambda f: f.clear(),\n"
        "            lambda f: f.python_function, lambda f: f.tracing_count()):\n"
        "    try:\n"
        "        ask(f)\n"
        "    except TypeError:\n"
        "        print('TypeError')\n"
    )
    done = subprocess.run(
        [HOST, "-c", program], env=clean_environment(), capture_output=True, text=True, timeout=100
    )
    assert (done.returncode, done.stdout) == (0, "TypeError\n" * 6), done.stderr


def test_partial_objects_of_the_decorator():
    decorate = functools.partial(tracehost.function, limit=1)
    f = decorate(plain)
    f(X), f(torch.ones(2))
    assert f.stats()["live"] == 1


def test_functions_compare_and_hash_by_identity():
    f, g = tracehost.function(plain), tracehost.function(plain)
    assert f != g and f == f and len({f, g, f}) == 2 and sys.getrefcount(f) > 0
