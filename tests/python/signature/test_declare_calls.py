"""Calls of declared Functions: what is converted, what is rejected, how often it is traced."""

import numpy as np
import pytest
import torch
import tracehost
from declare_support import SCALAR, S, declared, rejection, spec
from tracehost import SignatureError, TensorSpec
from tracehost._arguments import signature as _signature
from tracehost.testing import assert_traces


@pytest.fixture(autouse=True)
def forget():
    """Warnings of a test are of its own calls."""
    tracehost.reset()


# -- sizes and traces ----------------------------------------------------------------------------


def test_one_trace_serves_all_sizes():
    f = declared(TensorSpec([None, 3]))
    for n in (4, 1, 0, 7):
        x = torch.randn(n, 3)
        assert torch.equal(f(x), x * 2)
    assert (f.tracing_count(), f.stats()["hits"]) == (1, 3)


def test_a_shape_of_none_is_one_trace_a_rank():
    f = declared(TensorSpec(None))
    with assert_traces(f, 3):
        for shape in ((), (2,), (3,), (2, 2), (3, 1)):
            x = torch.randn(shape)
            assert torch.equal(f(x), x * 2)


def test_what_is_not_in_a_spec_is_one_trace_each():
    f = declared(S)
    with assert_traces(f, 2):
        f(torch.ones(2))
        f(torch.ones(3, requires_grad=True))
        f(torch.ones(4, requires_grad=True))
    with assert_traces(f, 1):
        with torch.no_grad():
            f(torch.ones(5))


def test_gradients_at_another_size_than_the_traces():
    f = declared(S, SCALAR, func=lambda x, w: (x * w).exp().sum())
    with assert_traces(f, 1):
        for n in (2, 5):
            x, w = torch.randn(n, requires_grad=True), torch.tensor(0.5, requires_grad=True)
            expected = torch.autograd.grad((x * w).exp().sum(), [x, w])
            got = torch.autograd.grad(f(x, w), [x, w])
            assert all(torch.equal(a, b) for a, b in zip(got, expected))


def test_the_same_tensor_twice():
    f = declared(S, S, func=lambda x, y: x + y)
    with assert_traces(f, 1):
        for n in (2, 3):
            x = torch.randn(n)
            assert torch.equal(f(x, x), x + x)
    with assert_traces(f, 1):
        f(torch.ones(2), torch.ones(2))


def test_the_same_tensor_for_specs_of_which_one_is_exact():
    f = declared(S, TensorSpec([2]), func=lambda x, y: x.sum() + y.sum())
    two, three = torch.ones(2), torch.ones(3)
    with assert_traces(f, 2):
        assert f(two, two).item() == 4
        assert f(three, two).item() == 5
        assert f(torch.ones(4), two).item() == 6
    assert rejection(f, three, three) == f"argument 'y': expected {spec('(2,)')}, got float32[3]"


def test_a_hit_does_not_ask_the_declaration(monkeypatch):
    asked = []
    convert = _signature.Declaration.convert
    monkeypatch.setattr(
        _signature.Declaration,
        "convert",
        lambda self, *args: asked.append(args) or convert(self, *args),
    )
    f = declared(S, SCALAR, func=lambda x, y: x * y)
    x, y = torch.ones(2), torch.ones(())
    with assert_traces(f, 1):
        for _ in range(3):
            f(x, y)
        assert len(asked) == 1
        assert f(x, 2.0).tolist() == [2.0, 2.0]  # a number makes a tensor at each call
        assert f(x, 3.0).tolist() == [3.0, 3.0]
        assert len(asked) == 3


def test_reduce_retracing_changes_nothing():
    f = tracehost.function(
        lambda x, y: x.sum() + y.sum(),
        input_signature=[S, TensorSpec([2])],
        reduce_retracing=True,
    )
    with assert_traces(f, 1):
        for n in (1, 2, 3):
            assert f(torch.ones(n), torch.ones(2)).item() == n + 2
    with pytest.raises(SignatureError):
        f(torch.ones(1), torch.ones(3))


def test_arguments_by_keyword():
    f = declared(S, S, func=lambda x, y: x - y)
    a, b = torch.tensor([5.0]), torch.tensor([3.0])
    with assert_traces(f, 1):
        for call in (
            lambda: f(a, b),
            lambda: f(a, y=b),
            lambda: f(y=b, x=a),
            lambda: f(y=[3.0], x=[5]),
        ):
            assert call().tolist() == [2.0]


def test_wrong_arity_has_python_s_words():
    f = declared(S, S, func=lambda x, y: x + y)
    x = torch.ones(1)
    with assert_traces(f, 0):
        for call, text in (
            (lambda: f(x), "missing a required argument: 'y'"),
            (lambda: f(x, x, x), "too many positional arguments"),
            (lambda: f(x, x, z=x), "got an unexpected keyword argument 'z'"),
            (lambda: f(x, x, x=x), "multiple values for argument 'x'"),
        ):
            with pytest.raises(TypeError) as caught:
                call()
            assert type(caught.value) is TypeError and str(caught.value) == f"<lambda>() {text}"


# -- tensors ---------------------------------------------------------------------------------------


def test_tensors_are_never_cast():
    f = declared(TensorSpec([None, 3]))
    expected = f"argument 'x': expected {spec('(None, 3)')}, got "
    with assert_traces(f, 0):
        assert rejection(f, torch.ones(2, 4)) == expected + "float32[2, 4]"
        assert rejection(f, torch.ones(3)) == expected + "float32[3]"
        assert rejection(f, torch.ones(2, 3, dtype=torch.float64)) == expected + "float64[2, 3]"
        assert rejection(f, torch.ones(1, 4, requires_grad=True)) == (
            expected + "float32[1, 4], requires_grad"
        )
        assert rejection(f, torch.nn.Parameter(torch.ones(4))) == (
            expected + "Parameter float32[4], requires_grad"
        )


def test_a_device_is_checked_and_converted_to():
    f = declared(TensorSpec([None], device="meta"))
    with assert_traces(f, 1):
        assert f([1.0, 2.0]).device.type == "meta"
        assert f(torch.ones(3, device="meta")).device.type == "meta"
    what = spec("(None,)", device="device='meta', ")
    assert rejection(f, torch.ones(2)) == f"argument 'x': expected {what}, got float32[2], cpu"
    assert rejection(declared(TensorSpec([None], device="cpu")), torch.ones(2, device="meta")) == (
        "argument 'x': expected TensorSpec(shape=(None,), dtype=torch.float32, device='cpu', "
        "name=None), got float32[2], meta"
    )


def test_a_rejected_call_leaves_the_traceback_at_the_call():
    f = declared(S)
    with pytest.raises(SignatureError) as caught:
        f(torch.ones(1, 1))
    assert [entry.path.name for entry in caught.traceback] == ["test_declare_calls.py"]


# -- containers --------------------------------------------------------------------------------------


def test_nested_values():
    f = declared((S, [S]), {"k": S}, func=lambda pair, d: pair[0] + pair[1][0] + d["k"])
    with assert_traces(f, 1):
        for n in (1, 2):
            x = torch.ones(n)
            assert f((x, [x + 1]), {"k": x + 2}).tolist() == [6.0] * n
            assert f((x, [[1.0] * n]), {"k": np.ones(n)}).tolist() == [3.0] * n
    assert rejection(f, (x, ["a"]), {"k": x}) == (
        f"argument 'pair[1][0]': expected {spec('(None,)')}, got 'a': str can't be a tensor"
    )
    assert rejection(f, (x, [x]), {"k": None}).startswith("argument 'd['k']': expected TensorSpec")


@pytest.mark.parametrize(
    "value, got",
    [
        ([1.0, 1.0], "a list of 2"),
        ((1.0,), "a tuple of 1"),
        ((1.0, 1.0, 1.0), "a tuple of 3"),
        (torch.ones(2), "float32[2]"),
        (None, "None"),
        ({"a": 1.0}, "a dict with the keys ['a']"),
    ],
)
def test_a_tuple_is_a_tuple_of_its_length(value, got):
    f = declared((SCALAR, SCALAR), func=lambda p: p[0] + p[1])
    assert f((1, 2.0)).item() == 3
    assert rejection(f, value) == f"argument 'p': expected a tuple of 2, got {got}"


@pytest.mark.parametrize(
    "value, got",
    [
        ({"a": 1.0}, "a dict with the keys ['a']"),
        ({"a": 1.0, "c": 1.0}, "a dict with the keys ['a', 'c']"),
        ({"a": 1.0, "b": 1.0, "c": 1.0}, "a dict with the keys ['a', 'b', 'c']"),
        ([1.0, 2.0], "a list of 2"),
        (3, "3"),
    ],
)
def test_a_dict_has_its_keys(value, got):
    f = declared({"a": SCALAR, "b": SCALAR}, func=lambda d: d["a"] - d["b"])
    assert rejection(f, value) == (
        f"argument 'd': expected a dict with the keys ['a', 'b'], got {got}"
    )


def test_the_order_of_keys_is_the_declared_one():
    f = declared({"a": SCALAR, "b": SCALAR}, func=lambda d: next(iter(d.values())))
    one, two = torch.tensor(1.0), torch.tensor(2.0)
    with assert_traces(f, 1):
        assert f({"a": one, "b": two}).item() == 1
        assert f({"b": two, "a": one}).item() == 1


# -- parameters without a spec -----------------------------------------------------------------------


def test_a_parameter_without_a_spec_is_its_default():
    f = declared(S, func=lambda x, k=2, *, mode="sum": getattr(x * k, mode)())
    x = torch.ones(3)
    with assert_traces(f, 1):
        assert [f(x).item(), f(x, 2).item(), f(x, k=2, mode="sum").item()] == [6.0] * 3
        why = "(its default: input_signature has no spec for it)"
        assert rejection(f, x, 3) == f"argument 'k': expected 2 {why}, got 3"
        assert rejection(f, x, 2.0) == f"argument 'k': expected 2 {why}, got 2.0"
        assert rejection(f, x, torch.tensor(2)) == f"argument 'k': expected 2 {why}, got int64[]"
        assert rejection(f, x, mode="mean") == f"argument 'mode': expected 'sum' {why}, got 'mean'"


@pytest.mark.parametrize(
    "default, same, other",
    [
        (float("nan"), float("nan"), 0.0),
        (0.0, 0.0, -0.0),
        (True, True, 1),
        (None, None, 0),
        ((1, "a"), (1, "a"), (1, "b")),
        ([1, [2]], [1, [2]], [1, [2, 3]]),
        ({"k": 1}, {"k": 1}, {"k": True}),
        ([], [], [1]),
        (torch.float32, torch.float32, torch.float64),
    ],
)
def test_what_an_equal_default_is(default, same, other):
    f = declared(S, func=lambda x, k=default: x + 1)
    x = torch.ones(1)
    with assert_traces(f, 1):
        f(x)
        f(x, same)
    rejection(f, x, other)


def test_a_default_that_is_a_tensor_stands_for_its_dtype_and_shape():
    f = declared(S, func=lambda x, w=torch.ones(2): x.sum() * w)
    x = torch.ones(3)
    with assert_traces(f, 2):
        assert f(x).tolist() == [3.0, 3.0] and f(x, torch.zeros(2)).tolist() == [0.0, 0.0]
        # The default itself is also reached by a path: a trace of its own.
        assert f(x, [1, 2]).tolist() == [3.0, 6.0]
    assert (
        rejection(f, x, torch.ones(3)) == f"argument 'w': expected {spec('(2,)')}, got float32[3]"
    )


def test_a_default_that_changed_later():
    sizes = [1, 2]
    f = declared(S, func=lambda x, k=sizes: x + len(k))
    x = torch.ones(1)
    assert f(x).tolist() == [3.0]
    sizes.append(3)
    assert rejection(f, x) == "argument 'k': expected a list of 2, got a list of 3"


def test_an_error_in_a_user_s_eq_passes_through():
    class Broken:
        def __eq__(self, other):
            raise KeyError("broken")

        __hash__ = None

    f = declared(S, func=lambda x, k=Broken(): x)
    with pytest.raises(KeyError, match="broken"):
        f(torch.ones(1), Broken())


# -- switches --------------------------------------------------------------------------------------


def test_nothing_is_checked_where_functions_run_eagerly():
    f = declared(TensorSpec([2]))
    tracehost.run_functions_eagerly(True)
    with assert_traces(f, 0):
        try:
            assert f(3) == 6 and f("a") == "aa" and f(torch.ones(3)).tolist() == [2.0] * 3
        finally:
            tracehost.run_functions_eagerly(False)
        rejection(f, "a")


def test_no_warning_for_any_number_of_sizes(recwarn):
    f = declared(S)
    with assert_traces(f, 1):
        for n in range(1, 12):
            f(torch.ones(n))
        assert not len(recwarn)
