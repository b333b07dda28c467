"""Calls of a ConcreteFunction: structured, flat, captures, contexts, gradients."""

import pytest
import torch
import tracehost
from torch import nn
from tracehost import TensorSpec

S = TensorSpec([])
T = torch.tensor


def make(body, *args, **kwargs):
    return tracehost.function(body, name="f").get_concrete_function(*args, **kwargs)


def test_tensors_by_place_and_by_name():  # rows 6.01, 6.04
    cf = make(lambda x, y: x - y, S, S)
    a, b = T(5.0), T(3.0)
    for result in (cf(a, b), cf(a, y=b), cf(y=b, x=a)):
        assert result.item() == 2.0


def test_structured_calls_take_the_traced_values():  # rows 6.01, 6.03
    def body(x, k, mode="up", *, flag=None):
        return x * k + (mode == "up")

    cf = make(body, S, 7)
    assert cf(T(2.0), 7, "up", flag=None).item() == 15.0
    assert cf(T(2.0)).item() == 15.0  # flat
    with pytest.raises(tracehost.SignatureError, match=r"can not cast 8 to Literal\[7\]"):
        cf(T(2.0), 8, "up", flag=None)
    with pytest.raises(tracehost.SignatureError, match=r"can not cast 'down' to Literal\['up'\]"):
        cf(T(2.0), 7, "down", flag=None)


def test_numbers_and_arrays_become_tensors_in_structured_calls():  # row 6.03
    numpy = pytest.importorskip("numpy")
    cf = make(lambda x: x * 2, TensorSpec([2]))
    assert cf([1, 2.5]).tolist() == [2.0, 5.0]
    assert cf(numpy.array([1.0, 2.0], dtype="float32")).tolist() == [2.0, 4.0]
    nested = make(lambda d: d["a"][0] * 2, {"a": [TensorSpec([2])]})
    assert nested({"a": [numpy.ones(2, dtype="float32")]}).tolist() == [2.0, 2.0]
    scalar = make(lambda x: x * 2, TensorSpec([], torch.int64))
    assert scalar(4).item() == 8
    with pytest.raises(tracehost.SignatureError, match="cannot convert 4.5 to torch.int64"):
        scalar(4.5)


def test_functions_of_values_alone():  # row 6.10
    weight = torch.full((2,), 2.0)
    cf = make(lambda n: weight * n, 3)
    assert cf().tolist() == cf(3).tolist() == [6.0, 6.0]


def test_arity_errors():  # rows 6.02, 6.06
    cf = make(lambda x, y: x + y, S, S)
    t = T(1.0)
    head = "Binding inputs to f failed due to `{}`. Received args: {} for signature: (x: float32[], y: float32[]).\n"
    tail = "Fallback to flat signature also failed due to: {}"
    spec = "TensorSpec(shape=(), dtype=torch.float32, name=None)"
    for args, kwargs, structured, received, flat in (
        (
            (t,),
            {},
            "missing a required argument: 'y'",
            f"({spec},) and kwargs: {{}}",
            "f(x, y) missing required arguments: y.",
        ),
        (
            (t, t, t),
            {},
            "too many positional arguments",
            f"({spec}, {spec}, {spec}) and kwargs: {{}}",
            "f(x, y) takes 2 positional arguments, got 3.",
        ),
        (
            (t, t),
            {"x": t},
            "multiple values for argument 'x'",
            f"({spec}, {spec}) and kwargs: {{'x': {spec}}}",
            "f(x, y) got two values for 'x'.",
        ),
        (
            (t, t),
            {"c": t},
            "got an unexpected keyword argument 'c'",
            f"({spec}, {spec}) and kwargs: {{'c': {spec}}}",
            "f(x, y) got unexpected keyword arguments: c.",
        ),
    ):
        with pytest.raises(TypeError) as error:
            cf(*args, **kwargs)
        assert type(error.value) is TypeError
        assert str(error.value) == head.format(structured, received) + tail.format(flat)
    with pytest.raises(tracehost.SignatureError) as error:
        cf("a", t)
    assert str(error.value).endswith(
        "f(x, y): expected argument #0(zero-based) to be a Tensor; got str ('a')."
    )


def test_shapes_and_dtypes_are_checked_up_front():  # rows 6.07, 6.08, 6.09
    cf = make(lambda x: x + 1, TensorSpec([1]))
    with pytest.raises(tracehost.SignatureError) as error:
        cf(torch.ones(2))
    text = (
        "Can not cast TensorSpec(shape=(2,), dtype=torch.float32, name=None) to TensorSpec(shape=(1,), "
        "dtype=torch.float32, name=None). Tensor 'x' is not compatible with the shape this function was "
        "traced with. Expected shape (1,), but got shape (2,). Request it with a TensorSpec that has None "
        "for sizes that differ."
    )
    assert str(error.value) == (  # structured and flat have one reason, which is said once
        f"Binding inputs to f failed due to `{text}`. Received args: (TensorSpec(shape=(2,), dtype=torch.float32, "
        "name=None),) and kwargs: {} for signature: (x: float32[1])."
    )
    for wrong in (torch.ones(1, dtype=torch.float64), torch.ones(1).to_sparse(), torch.ones(1, 1)):
        with pytest.raises(tracehost.SignatureError):
            cf(wrong)
        with pytest.raises(tracehost.SignatureError):
            cf(x=wrong)
    wide = make(lambda x: x + 1, TensorSpec([None, 2]))
    assert wide(torch.zeros(3, 2)).shape == (3, 2)
    with pytest.raises(
        tracehost.SignatureError, match=r"Expected shape \(None, 2\), but got shape \(2, 3\)"
    ):
        wide(torch.zeros(2, 3))


def test_flat_names():  # row 6.05
    def body(x, batch, *xs, flag=True, **kw):
        return x + batch["image"][0] + sum(xs) + kw["a"]

    named = TensorSpec([], name="left")
    cf = make(body, named, {"image": [S]}, S, S, a=S)
    assert [spec.name for spec in cf.inputs] == ["left", "batch_image_0", "xs_0", "xs_1", "a"]
    assert cf(left=T(1.0), batch_image_0=T(2.0), xs_0=T(3.0), xs_1=T(4.0), a=T(5.0)).item() == 15.0
    assert cf(T(1.0), {"image": [T(2.0)]}, T(3.0), T(4.0), flag=True, a=T(5.0)).item() == 15.0
    twice = make(lambda x, y: x - y, named, named)
    assert [spec.name for spec in twice.inputs] == ["left", "left_1"]


def test_with_varargs_parameters_are_positional_only():  # row 2.73
    cf = make(lambda x, *xs: x - xs[0], S, S)
    assert cf(T(5.0), T(3.0)).item() == 2.0
    with pytest.raises(TypeError, match="got an unexpected keyword argument 'x'"):
        cf(x=T(5.0), y=T(3.0))


def test_containers_are_compared_by_type_and_keys():
    cf = make(lambda d: d["a"] + d["b"][0], {"a": S, "b": (S,)})
    assert cf({"a": T(1.0), "b": (T(2.0),)}).item() == 3.0
    for wrong in ({"a": T(1.0)}, {"a": T(1.0), "b": [T(2.0)]}, {"a": T(1.0), "c": (T(2.0),)}):
        with pytest.raises(tracehost.SignatureError):
            cf(wrong)


def test_a_tensor_in_two_places_is_one():
    x = T(2.0)
    cf = make(lambda x, y: x * y, x, x)
    assert cf(T(3.0).requires_grad_()).item() == 9.0
    same = T(4.0)
    assert cf(same, same).item() == 16.0
    with pytest.raises(tracehost.SignatureError, match="one tensor in several places"):
        cf(T(1.0), T(2.0))


def test_captures_are_read_again():  # rows 6.10, 6.25, 7.12
    class Model:
        def __init__(self):
            self.w = torch.ones(2)

    model = Model()
    cf = make(lambda x: x * model.w, TensorSpec([2]))
    model.w.fill_(2.0)
    assert cf(torch.ones(2)).tolist() == [2.0, 2.0]
    model.w = torch.full((2,), 5.0)
    assert cf(torch.ones(2)).tolist() == [5.0, 5.0]
    assert cf.captured_inputs[0] is model.w
    model.w = torch.ones(3)
    with pytest.raises(tracehost.CaptureError) as error:
        cf(torch.ones(2))
    assert str(error.value) == (
        "f: the captured tensor model.w was float32[2] at the trace, and is float32[3] now. "
        "Get a new ConcreteFunction."
    )
    del model.w
    with pytest.raises(
        tracehost.CaptureError, match=r"model\.w was float32\[2\].*can't be found now"
    ):
        cf(torch.ones(2))


def test_python_values_are_those_of_the_trace():
    class Model:
        def __init__(self):
            self.k, self.w = 2.0, torch.ones(())

    model = Model()
    cf = make(lambda x: x * model.k * model.w, S)
    model.k, model.w = 3.0, T(10.0)
    assert cf(T(1.0)).item() == 20.0


def test_other_captures_by_hand():  # row 6.26
    weight = torch.ones(2)
    cf = make(lambda x: x * weight, TensorSpec([2]))
    other = torch.full((2,), 7.0)
    cf.set_external_captures([other])
    assert cf.captured_inputs[0] is other
    assert cf(torch.ones(2)).tolist() == [7.0, 7.0]
    with pytest.raises(ValueError, match="has 1 captures, got 0 tensors"):
        cf.set_external_captures([])
    with pytest.raises(tracehost.CaptureError, match=r"is float32\[3\]"):
        cf.set_external_captures([torch.ones(3)])


def test_parameters_and_buffers():  # row 6.24
    model = nn.BatchNorm1d(2)
    cf = tracehost.function(model).get_concrete_function(TensorSpec([None, 2]))
    assert {id(p) for p in cf.parameters()} == {id(model.weight), id(model.bias)}
    assert {id(b) for b in cf.buffers()} == {id(b) for b in model.buffers()}


def test_gradients():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
    cf = tracehost.function(model).get_concrete_function(TensorSpec([None, 3]))
    x = torch.randn(5, 3, requires_grad=True)
    for p in model.parameters():
        p.grad = None
    cf(x).sum().backward()
    got = [x.grad, *(p.grad for p in model.parameters())]
    x.grad = None
    for p in model.parameters():
        p.grad = None
    model(x).sum().backward()
    for a, b in zip(got, [x.grad, *(p.grad for p in model.parameters())]):
        assert torch.equal(a, b)


def test_grad_mode_is_the_callers():
    weight = torch.ones(2, requires_grad=True)
    cf = make(lambda x: x * weight, TensorSpec([2]))
    assert cf(torch.ones(2)).requires_grad
    with torch.no_grad():
        assert not cf(torch.ones(2)).requires_grad
    with torch.inference_mode():
        assert cf(torch.ones(2)).is_inference()
    with torch.no_grad():
        quiet = make(lambda x: x * weight, TensorSpec([2]))
    assert quiet(torch.ones(2)).requires_grad


def test_deterministic_algorithms_are_the_callers():
    cf = make(lambda x: x.cumsum(0), TensorSpec([3]))
    torch.use_deterministic_algorithms(True)
    try:
        assert cf(torch.ones(3)).tolist() == [1.0, 2.0, 3.0]
    finally:
        torch.use_deterministic_algorithms(False)


def test_other_contexts_are_rejected():
    def body(x):
        with torch.no_grad():
            y = x * 2
        return y + x

    cf = make(body, TensorSpec([2]))
    with torch.no_grad(), pytest.raises(tracehost.SignatureError) as error:
        cf(torch.ones(2))
    assert str(error.value) == (
        "f was traced with grad mode on, and is called with off. Request another ConcreteFunction in "
        "that context."
    )
    plain = make(lambda x: x @ x, TensorSpec([2, 2]))
    with (
        torch.autocast("cpu", torch.bfloat16),
        pytest.raises(tracehost.SignatureError, match="traced with autocast on cpu off"),
    ):
        plain(torch.ones(2, 2))


def test_an_op_that_fails_names_its_line():
    cf = make(lambda x, i: x[i], TensorSpec([2]), TensorSpec([1], torch.int64))
    with pytest.raises(IndexError) as error:
        cf(torch.ones(2), T([5]))
    assert any("test_concrete_call.py" in note for note in error.value.__notes__)


def test_in_a_body_it_is_part_of_that_graph():  # row 10.20
    weight = torch.ones(2)
    inner = tracehost.function(lambda x, k: x * weight * k)
    cf = inner.get_concrete_function(TensorSpec([2]), 3)
    outer = tracehost.function(lambda x: cf(x) + cf(x, 3))
    assert outer(torch.ones(2)).tolist() == [6.0, 6.0]
    weight.fill_(2.0)
    assert outer(torch.ones(2)).tolist() == [12.0, 12.0]
    assert outer.tracing_count() == inner.tracing_count() == 1
    assert inner.stats()["inlined"] == 2
    with pytest.raises(tracehost.SignatureError):
        outer(torch.ones(3))


def test_objects_among_the_arguments():
    class Config:
        def __init__(self):
            self.w = torch.ones(2)

    config = Config()
    cf = make(lambda config, x: x * config.w, config, TensorSpec([2]))
    config.w = torch.full((2,), 4.0)
    assert cf(config, torch.ones(2)).tolist() == [4.0, 4.0]
    assert cf(torch.ones(2)).tolist() == [4.0, 4.0]
    del config
    with pytest.raises(tracehost.CaptureError, match="an object that it was traced with is gone"):
        cf(torch.ones(2))


def test_results_keep_their_structure():
    cf = make(lambda x: {"a": (x, x + 1), "n": 3}, TensorSpec([1]))
    x = torch.zeros(1)
    result = cf(x)
    assert result["a"][0] is x and result["a"][1].tolist() == [1.0] and result["n"] == 3
