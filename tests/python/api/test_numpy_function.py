"""tracehost.numpy_function: numpy code at each run; and numbers of the graph that py_function is given."""

import numpy as np
import pytest
import torch
import tracehost
from eager_support import same
from tracehost import TensorSpec, numpy_function, py_function
from tracehost.testing import assert_traces

X = torch.tensor([1.0, 2.0, 3.0])


def n(value):
    return torch.tensor(value)


def spread(a):
    return a.max() - a.min(), np.argsort(-a)


PROGRAMS = {
    "one result": lambda x: numpy_function(np.sin, [x], "float32") + x,
    "several results": lambda x: numpy_function(spread, [x], ["float32", np.int64]),
    "a number out": lambda x: numpy_function(lambda a: float(a.sum()), [x], np.float64),
    "no result": lambda x: (numpy_function(lambda a: None, [x], None), x * 2)[1],
    "numbers in": lambda x: numpy_function(
        lambda a, k, m: a * np.float32(k + m), [x, 2, x.sum().item()], torch.float32
    ),
    "by name": lambda x: numpy_function(
        func=np.cos, inp=[x], Tout=torch.float32, stateful=False, name="c"
    ),
    "what it is given, again": lambda x: numpy_function(lambda a: a, [x], torch.float32),
    "a part of it": lambda x: numpy_function(lambda a: a[::-1], [x], torch.float32),
    "another byte order": lambda x: numpy_function(lambda a: a.astype(">f4"), [x], torch.float32),
    "a view": lambda x: numpy_function(lambda a: a.T * 1, [x.reshape(1, 3).T], torch.float32),
    "conjugated": lambda x: (
        numpy_function(lambda a: a, [torch.complex(x, x).conj()], "complex64").imag
    ),
    "a tensor out": lambda x: numpy_function(torch.tensor, [x], torch.float32),
}


@pytest.mark.parametrize("autograph", [True, False])
@pytest.mark.parametrize("name", PROGRAMS)
def test_as_plain_python(name, autograph):
    same(PROGRAMS[name], (X,), (-X,), (X * 2,), autograph=autograph)


def test_each_run_calls_it_once():
    seen = []
    f = tracehost.function(lambda x: numpy_function(lambda a: seen.append(a.tolist()), [x], None))
    with assert_traces(f, 1):
        for k in (1, 2, 3):
            f(torch.full((1,), float(k)))
        assert seen == [[1.0], [2.0], [3.0]]


def test_it_has_no_gradient():
    def f(x):
        y = numpy_function(np.square, [x], "float32")
        return y, (y * x).sum()

    for call in (f, tracehost.function(f)):
        for k in (1.0, 2.0):
            x = (X * k).requires_grad_()
            y, total = call(x)
            total.backward()
            assert not y.requires_grad
            torch.testing.assert_close(x.grad, (X * k) ** 2)


def test_arrays_are_not_written():
    def f(x):
        def write(a):
            a[0] = 9
            return a

        return numpy_function(write, [x], "float32")

    for call in (f, tracehost.function(f)):
        x = X.clone()
        with pytest.raises(ValueError, match="assignment destination is read-only"):
            call(x)
        assert torch.equal(x, X)


def test_what_it_returns_is_not_what_it_keeps():
    kept = np.zeros(1, dtype=np.float32)

    def f(x):
        def count(a):
            kept[0] += 1
            return kept

        return numpy_function(count, [x], "float32")

    staged = tracehost.function(f)
    results = [staged(X), staged(X), f(X)]
    assert [r.item() for r in results] == [1.0, 2.0, 3.0]


def test_in_branches_and_loops():
    def f(x, count):
        for _ in range(count):
            x = x + numpy_function(np.sin, [x], "float32", shape=[3])
        if x.sum() > 3:
            x = numpy_function(np.negative, [x], "float32", shape=[3]) * 1
        return x

    same(f, *[(X, n(k)) for k in (2, 0, 3)], (-X, n(2)), grad=False)


def test_a_request_needs_the_shape():
    spec = TensorSpec([3])
    with pytest.raises(tracehost.TraceError, match="Give it shape="):
        tracehost.function(PROGRAMS["one result"]).get_concrete_function(spec)
    f = tracehost.function(lambda x: numpy_function(np.sin, [x], "float32", shape=[3]) + x)
    torch.testing.assert_close(f.get_concrete_function(spec)(X), X.sin() + X)


@pytest.mark.parametrize(
    ("f", "error", "text"),
    [
        (
            lambda x: numpy_function(lambda a: a.astype("float64"), [x], "float32"),
            tracehost.SignatureError,
            "numpy_function '<lambda>' at test_numpy_function.py:{} returned an array of float64, not the declared "
            "torch.float32. Return result.astype('float32'), or declare torch.float64.",
        ),
        (
            lambda x: numpy_function(lambda a: "a", [x], "float32", name="shout"),
            tracehost.SignatureError,
            "numpy_function 'shout' at test_numpy_function.py:{} returned a str, not a tensor of torch.float32. "
            "Change one of them.",
        ),
        (
            lambda x: numpy_function(np.sin, [x], "float32", shape=[2]),
            tracehost.SignatureError,
            "numpy_function 'sin' at test_numpy_function.py:{} returned a tensor of shape [3], not the declared "
            "[2]. Change one of them.",
        ),
        (
            lambda x: numpy_function(np.sin, [x.bfloat16()], "float32"),
            TypeError,
            "numpy_function 'sin' is given a tensor of torch.bfloat16, torch.strided, of which numpy has no "
            "arrays. Convert it first, as in x.float().",
        ),
        (
            lambda x: numpy_function(np.sin, x, "float32"),
            TypeError,
            "numpy_function takes a list of inputs, got Tensor",
        ),
        (
            lambda x: numpy_function(3, [x], "float32"),
            TypeError,
            "numpy_function takes a callable, got 3",
        ),
        (
            lambda x: numpy_function(np.sin, [x], float),
            TypeError,
            "numpy_function's dtype is a torch.dtype, its name ('float32') or numpy's, a list of them or None, got "
            "<class 'float'> (type): write 'float32' or 'float64'",
        ),
        (
            lambda x: numpy_function(np.sin, ["a"], "float32"),
            TypeError,
            "numpy_function takes tensors and numbers, input 0 is of type str. Let the function reach it by "
            "itself: a closure, a partial.",
        ),
    ],
)
def test_wrong_use(f, error, text):
    for call in (f, tracehost.function(f)):
        with pytest.raises(error) as caught:
            call(X)
        assert str(caught.value).split("\n")[0] == text.format(_line_of_call(f))


def _line_of_call(f):
    return f.__code__.co_firstlineno


# ---- py_function


def test_py_function_has_tfs_names_too():
    def f(x):
        return py_function(func=torch.sin, inp=[x], Tout="float32")

    same(f, (X,), (-X,))
    with pytest.raises(TypeError) as caught:
        py_function(torch.sin, [X], torch.float32, Tout=torch.float32)
    assert str(caught.value) == "py_function() got both 'dtype' and 'Tout', which are the same"
    with pytest.raises(TypeError) as caught:
        py_function(torch.sin, [X])
    assert str(caught.value) == "py_function() missing a required argument: 'dtype'"
    with pytest.raises(TypeError) as caught:
        py_function(torch.sin, Tout=None)
    assert str(caught.value) == "py_function() missing a required argument: 'inputs'"


def test_numbers_of_the_graph_are_those_of_each_run():
    seen = []

    def note(*values):
        seen.append([(type(v).__name__, v) for v in values if not isinstance(v, torch.Tensor)])

    def f(x, k):
        number = k.item()
        py_function(note, [number, x, number > 2, number / 2, 7], None)
        for i in range(k):
            py_function(note, [x, i, number], None)
        return x * 1

    staged = tracehost.function(f)
    runs = []
    with assert_traces(staged, 1):
        for call in (f, staged):
            seen.clear()
            for k in (2, 3, 0):
                call(X, n(k))
            runs.append(list(seen))
        assert runs[0] == runs[1] and len(runs[0]) == 8
        assert runs[0][0] == [("int", 2), ("bool", False), ("float", 1.0), ("int", 7)]


def test_gradients_of_what_a_loop_does_not_change():
    def f(x, w, k):
        for _ in range(k):
            x = x + py_function(lambda t: t.sin(), [w], "float32", shape=[3])
        return x

    same(f, (X, X * 2, n(2)), (X, X, n(3)), (X, X, n(0)))
