"""Declaring an input_signature: what may be declared, and every error at decoration."""

import collections
import copy
import functools
import gc
import pickle
import weakref

import pytest
import torch
import tracehost
from tracehost import TensorSpec
from tracehost.testing import assert_traces

S = TensorSpec([None])
HERE = "test_declare_signature.py"


def step(x, y=2, *rest, scale=1.0, **options):
    return x * y * scale + sum(rest)


def line(func):
    return f"{func.__name__} ({HERE}:{func.__code__.co_firstlineno})"


def rejection(func, signature):
    with pytest.raises(TypeError) as caught:
        tracehost.function(func, input_signature=signature)
    assert type(caught.value) is TypeError
    text, where = str(caught.value), line(func) + ": "
    assert text.startswith(where)
    return text.removeprefix(where)


# -- what is rejected -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "signature, got",
    [
        (
            S,
            "TensorSpec TensorSpec(shape=(None,), dtype=torch.float32, name=None). Write "
            "input_signature=[tracehost.TensorSpec(shape=(None,), dtype=torch.float32, name=None)].",
        ),
        (3, "int 3."),
        ({"x": S}, "dict {'x': TensorSpec(shape=(None,), dtype=torch.float32, name=None)}."),
        (
            torch.int64,
            "dtype torch.int64. Write input_signature=[tracehost.TensorSpec([None], torch.int64)].",
        ),
    ],
)
def test_it_is_a_list_or_a_tuple(signature, got):
    assert rejection(step, signature) == (
        f"input_signature must be either a tuple or a list, got {got}"
    )


def test_its_leaves_are_specs():
    text = "input_signature must be a possibly nested sequence of TensorSpec objects, got invalid args "
    rest = " A Python value is declared by the parameter's default."
    assert rejection(step, [S, 3]) == f"{text}[3] with types [int].{rest}"
    assert rejection(step, [[S, "a"]]) == f"{text}['a'] with types [str].{rest}"
    assert rejection(step, [None]) == f"{text}[None] with types [NoneType].{rest}"


@pytest.mark.parametrize(
    ("signature", "wrong", "spec"),
    [
        ([(None, 3)], "[None, 3] with types [NoneType, int]", "[None, 3], torch.float32"),
        ((None, 3), "[None, 3] with types [NoneType, int]", "[None, 3], torch.float32"),
        ([torch.int64], "[torch.int64] with types [dtype]", "[None], torch.int64"),
        ([(None, 3), torch.float16], "[None, 3, torch.float16] with types [NoneType, int, dtype]", "[None, 3], torch.float16"),
        ([torch.ones(2, 3)], "[float32[2, 3]] with types [Tensor]", "[2, 3], torch.float32"),
        ([[S, "a"], {"k": torch.float32}], "['a', torch.float32] with types [str, dtype]", "[None], torch.float32"),
    ],
)  # fmt: skip
def test_a_shape_a_dtype_or_a_tensor_in_place_of_a_spec(signature, wrong, spec):
    assert rejection(step, signature) == (
        "input_signature must be a possibly nested sequence of TensorSpec objects, got invalid args "
        f"{wrong}. Write input_signature=[tracehost.TensorSpec({spec})], with a None for each size that may differ."
    )


def test_a_signature_in_itself():
    endless = [S]
    endless.append(endless)
    assert rejection(step, endless) == "input_signature is nested deeper than 200 levels."


def test_too_few_and_too_many():
    def two(x, y):
        return x + y

    assert rejection(two, [S]) == "input_signature missing type constraint for y."
    assert rejection(two, []) == "input_signature missing type constraint for x."
    assert rejection(two, [S] * 3) == "input_signature contains 1 extra type constraints."
    assert rejection(two, [S] * 4) == "input_signature contains 2 extra type constraints."


def test_keyword_only_parameters_have_a_default():
    def named(x, *, b):
        return x + b

    assert rejection(named, [S]) == (
        "Since input_signature is defined, keyword-only parameter `b` must have a default value."
    )
    partial = functools.partial(named, b=torch.ones(()))
    made = tracehost.function(partial, input_signature=[S])
    assert torch.equal(made(torch.ones(2)), torch.full((2,), 2.0))


def test_the_decorator_with_options_rejects_at_the_function():
    decorate = tracehost.function(input_signature=3)
    with pytest.raises(TypeError, match="got int 3"):
        decorate(step)


def test_a_lambda_and_a_callable_are_named():
    class Model:
        def __call__(self, x):
            return x

    with pytest.raises(TypeError, match=rf"^<lambda> \({HERE}:\d+\): input_signature contains 1 "):
        tracehost.function(lambda: 1, input_signature=[S])
    with pytest.raises(TypeError, match=rf"^Model \({HERE}:\d+\): input_signature contains 1 "):
        tracehost.function(Model(), input_signature=[S, S])


# -- how specs are spread --------------------------------------------------------------------------


def test_input_signature_is_a_tuple():
    f = tracehost.function(step, input_signature=[S, TensorSpec([])])
    assert f.input_signature == (S, TensorSpec([]))
    assert tracehost.function(step).input_signature is None
    assert tracehost.function(lambda: 1, input_signature=()).input_signature == ()


def test_the_declaration_is_a_copy():
    inner, outer = [S], {"k": S}
    given = [inner, outer]
    f = tracehost.function(lambda a, b: a[0] + b["k"], input_signature=given)
    inner.append(S)
    outer["other"] = S
    given.clear()
    assert f.input_signature == ([S], {"k": S})
    assert f([torch.ones(1)], {"k": torch.ones(1)}).tolist() == [2.0]


def test_specs_left_over_go_to_args():
    f = tracehost.function(step, input_signature=[S, TensorSpec([]), S, S])
    x, t = torch.ones(2), torch.tensor(3.0)
    with assert_traces(f, 1):
        assert f(x, t, x, x).tolist() == [5.0, 5.0]
        for n, text in (
            (0, "step() missing a required argument: 'rest_0'"),
            (1, "step() missing a required argument: 'rest_1'"),
            (3, "step() too many positional arguments"),
        ):
            with pytest.raises(TypeError) as caught:
                f(x, t, *[x] * n)
            assert str(caught.value) == text


def test_args_without_specs_take_nothing():
    f = tracehost.function(step, input_signature=[S])
    x = torch.ones(2)
    assert f(x).tolist() == [2.0, 2.0]
    with pytest.raises(TypeError) as caught:
        f(x, 2, x)
    assert str(caught.value) == "step() too many positional arguments"


def test_kwargs_are_dropped():
    f = tracehost.function(step, input_signature=[S])
    with pytest.raises(TypeError) as caught:
        f(torch.ones(2), k=torch.ones(2))
    assert str(caught.value) == "step() got an unexpected keyword argument 'k'"


class Methods:
    scale = 3.0

    @tracehost.function(input_signature=[S])
    def method(self, x):
        return x * self.scale

    @classmethod
    @tracehost.function(input_signature=[S])
    def of_class(cls, x):
        return x * cls.scale

    @tracehost.function(input_signature=[S])
    @classmethod
    def above(cls, x):
        return x * cls.scale

    @tracehost.function(input_signature=[S])
    @staticmethod
    def alone(x):
        return x * 2

    @property
    @tracehost.function(input_signature=[])
    def value(self):
        return torch.ones(1) * self.scale


def test_self_and_cls_are_skipped():
    m = Methods()
    with assert_traces(m.of_class.__func__, 1):
        for method in (m.method, functools.partial(Methods.method, m), m.of_class, Methods.above):
            assert method(torch.ones(2)).tolist() == [3.0, 3.0]
            assert method(torch.ones(1)).tolist() == [3.0]
            assert method([1, 2]).tolist() == [3.0, 6.0]
            with pytest.raises(
                tracehost.SignatureError, match="^argument 'x': expected TensorSpec"
            ):
                method(torch.ones(1, 1))
        assert Methods.method.tracing_count() == m.method.tracing_count() == 1
    assert m.alone([1.0]).tolist() == [2.0] and Methods.alone([1.0]).tolist() == [2.0]
    assert m.value.tolist() == [3.0]


def test_a_bound_method_and_a_tensor_called_cls():
    bound = tracehost.function(Methods().method.__func__.python_function.__get__(Methods()))
    assert bound(torch.ones(1)).tolist() == [3.0]

    @tracehost.function(input_signature=[S, S])
    def head(cls, x):
        return cls - x

    assert head([3.0], [1.0]).tolist() == [2.0]


def test_partials_declare_what_they_leave():
    def f(n, x, k=1.0):
        return x * n + k

    g = tracehost.function(functools.partial(f, 3.0), input_signature=[S])
    assert g(torch.ones(1)).tolist() == [4.0]
    h = tracehost.function(functools.partial(f, 3.0, k=5.0), input_signature=[S])
    with assert_traces(h, 1):
        assert h(torch.ones(1)).tolist() == [8.0] and h(torch.ones(2)).tolist() == [8.0, 8.0]


def test_a_module_is_declared_by_its_forward():
    layer = torch.nn.Linear(2, 3)
    f = tracehost.function(layer, input_signature=[TensorSpec([None, 2])])
    x = torch.randn(4, 2)
    with assert_traces(f, 1):
        assert torch.equal(f(x), layer(x)) and torch.equal(f(input=x[:1]), layer(x[:1]))
    with pytest.raises(tracehost.SignatureError, match="^argument 'input': "):
        f(torch.randn(4, 3))


# -- the Function with it ----------------------------------------------------------------------------


@tracehost.function(input_signature=[S])
def importable(x):
    return x + 1


def test_copies_and_pickles_keep_it():
    assert pickle.loads(pickle.dumps(importable)) is importable
    assert copy.copy(importable) is importable
    layer = tracehost.function(torch.nn.Linear(2, 1), input_signature=[TensorSpec([None, 2])])
    for other in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        assert other is not layer and other.input_signature == (TensorSpec([None, 2]),)
        with pytest.raises(tracehost.SignatureError):
            other(torch.ones(3))


def test_a_declared_function_can_be_collected():
    class Owner:
        pass

    def make():
        owner = Owner()
        owner.f = tracehost.function(lambda x, o=owner: x + 1, input_signature=[S])
        owner.f(torch.ones(1))
        return weakref.ref(owner)

    gone = make()
    gc.collect()
    assert gone() is None


def test_container_types_are_kept():
    Pair = collections.namedtuple("Pair", "a b")
    f = tracehost.function(
        lambda p, d: p.a + p.b + d["k"],
        input_signature=[Pair(S, S), collections.OrderedDict(k=S)],
    )
    assert type(f.input_signature[0]) is Pair
    d = collections.OrderedDict(k=[1.0])
    assert f(Pair([1.0], torch.ones(1)), d).tolist() == [3.0]
    with pytest.raises(tracehost.SignatureError) as caught:
        f(([1.0], [1.0]), d)
    assert str(caught.value) == "argument 'p': expected a Pair of 2, got a tuple of 2"
