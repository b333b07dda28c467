"""TensorArray's options of tf, and concat, scatter, split: in a trace, at hits and outside of traces."""

import pytest
import torch
import tracehost
from eager_support import same, same_error
from tracehost import TensorArray, TensorSpec

X = torch.tensor([1.0, 2.0])


def n(value):
    return torch.tensor(value)


def rows(count, width=2):
    return torch.arange(1.0, 1 + count * width).reshape(count, width)


# ---- size and dynamic_size


def grows_from(size, count, x, **options):
    out = TensorArray("float32", size, dynamic_size=True, **options)
    for i in tracehost.range(count):
        out.write(i, x * i)
    return out.stack(), out.size() * 1


@pytest.mark.parametrize("autograph", [True, False])
@pytest.mark.parametrize("size", [0, 2])
def test_it_grows_beyond_its_size(size, autograph):
    def f(x, count):
        out = TensorArray("float32", size=size, dynamic_size=True)

        def body(i):
            out.write(i, x * i)
            return i + 1

        tracehost.while_loop(lambda i: i < count, body, (0,))
        return out.stack(), out.size() * 1

    same(f, (X, n(4)), (X, n(2)), (X, n(5)), autograph=autograph)


@pytest.mark.parametrize("as_tensor", [True, False])
def test_a_size_that_is_traced_and_grows(as_tensor):
    def f(x, size, count):
        size = size if as_tensor else size.item()
        return grows_from(size, count, x)

    same(f, (X, n(2), n(4)), (X, n(3), n(3)), (X, n(0), n(1)))
    staged = tracehost.function(f)
    for bad in (f, staged, staged):
        with pytest.raises(RuntimeError, match="stack\\(\\) of a TensorArray"):
            bad(X, n(3), n(2))
        with pytest.raises(ValueError, match="TensorArray's size must be at least 0"):
            bad(X, n(-1), n(2))
        same(f, (X, n(2), n(4)), staged=staged)


def test_fewer_than_its_first_size():
    def f(x, count):
        out = TensorArray("float32", 3, dynamic_size=True)
        for i in tracehost.range(count):
            out.write(i, x)
        return out.size() * 1

    same(f, (X, n(1)), (X, n(3)), (X, n(5)))
    same(lambda x: TensorArray(size=3, dynamic_size=True).append(x).size(), (X,), (X,))
    for call in (lambda x: grows_from(3, 2, x), tracehost.function(lambda x: grows_from(3, 2, x))):
        with pytest.raises(RuntimeError, match="stack\\(\\) of a TensorArray"):
            call(X)


def test_unstack_replaces_the_first_size():
    def f(xs):
        out = TensorArray(size=5, dynamic_size=True).unstack(xs)
        return out.stack(), out.size() * 1

    same(f, (rows(2),), (-rows(2),))


def test_append_comes_after_the_first_size():
    def f(x, count):
        out = TensorArray(size=2, dynamic_size=True)
        out.append(x)
        for i in tracehost.range(count):
            out.append(x * i)
        return out.write(0, -x).write(1, x * 2).stack(), out.size() * 1

    same(f, (X, n(2)), (X, n(0)), (X, n(3)))
    same(lambda x, size, count: f(x, count), (X, n(2), n(1)), (X, n(2), n(0)))

    def traced(x, size):
        out = TensorArray(size=size, dynamic_size=True).append(x)
        for i in tracehost.range(size):
            out.write(i, x * i)
        return out.append(x).stack()

    same(traced, (X, n(2)), (X, n(0)), (X, n(3)))


def test_a_size_of_none_that_may_not_grow():
    for size in (0, None):

        def f(x, i, size=size):
            return TensorArray("float32", size=size, dynamic_size=False).write(i, x).stack()

        text = (
            "element 0 is written to a TensorArray of size 0. Give it a larger size, or none "
            "(TensorArray(dtype)): then it grows."
        )
        same_error(f, (X, n(0)), IndexError, text)
        same_error(lambda x: f(x, 0), (X,), IndexError, text)
    staged = tracehost.function(lambda x: TensorArray(dynamic_size=False).append(x).stack())
    with pytest.raises(ValueError, match="append to a TensorArray whose size is given"):
        staged(X)


def test_a_size_that_may_differ_as_size_and_index():
    def f(xs):
        out = TensorArray("float32", size=xs.shape[0])
        for i in tracehost.range(xs.shape[0]):
            out.write(i, xs[i] * 2)
        return out.stack() * out.read(xs.shape[0] - 1)

    staged = tracehost.function(f, input_signature=[TensorSpec([None, 2])])
    same(f, (rows(3),), (rows(1),), (rows(4),), staged=staged, grad=False)


@pytest.mark.parametrize(
    ("options", "grows"),
    [
        ({}, True),
        ({"size": 2}, False),
        ({"size": 2, "dynamic_size": True}, True),
        ({"dynamic_size": False}, False),
    ],
)
def test_properties(options, grows):
    out = TensorArray("float32", clear_after_read=True, name="out", **options)
    assert out.dynamic_size is grows and out.dtype is torch.float32 and out.element_shape is None
    if options.get("dynamic_size") is not False:
        assert out.write(0, X).element_shape == (2,)
    assert TensorArray(element_shape=[None, 3]).element_shape == (None, 3)
    assert TensorArray(element_shape=[]).element_shape == ()


# ---- clear_after_read: read as often as you like


def test_elements_are_read_twice():
    def f(x):
        out = TensorArray(size=1, clear_after_read=True).write(0, x)
        return out.read(0) + out.read(0)

    same(f, (X,), (-X,))


# ---- element_shape


def test_elements_of_a_shape_are_zeros_until_they_are_written():
    def f(x, size, i):
        out = TensorArray("float32", size=size, element_shape=[2])
        out.write(i, x)
        return out.stack(), out.read(0)

    same(f, (X, n(3), n(1)), (X, n(2), n(0)), (X, n(4), n(3)))
    same(lambda x, i: f(x, 3, i), (X, n(1)), (X, n(0)))


def test_a_loop_reads_before_it_writes():
    def f(x, count):
        out = TensorArray("float32", size=5, element_shape=X.shape)
        for i in tracehost.range(count):
            out.write(i + 1, out.read(i) + x)
        return out.stack()

    same(f, (X, n(4)), (X, n(0)), (X, n(2)))


def test_no_elements_of_a_shape():
    def f(x, count):
        out = TensorArray("float32", element_shape=(2,))
        for i in tracehost.range(count):
            out.append(x * i)
        return out.stack() * 1, out.concat() * 1

    assert f(X, 0)[0].shape == (0, 2)
    for first in (0, 2):
        same(f, (X, n(first)), (X, n(0)), (X, n(3)), traces=1)
    same(lambda x: f(x, 0), (X,), (-X,))
    same(
        lambda x, size: TensorArray(size=size, element_shape=[2]).stack() + x.sum(),
        (X, n(2)),
        (X, n(0)),
        (X, n(1)),
    )


@pytest.mark.parametrize(
    ("shape", "x"), [([3], X), ([None, 2], X), ([], X), ([2], X.sum()), ([2, None], X)]
)
def test_an_element_of_another_shape(shape, x):
    text = f"an element of shape {list(x.shape)} is written to a TensorArray whose element_shape is {shape}"
    same_error(lambda x: TensorArray(element_shape=shape).append(x).stack(), (x,), ValueError, text)
    same_error(
        lambda x: TensorArray(element_shape=shape).unstack(x[None]).stack(), (x,), ValueError, text
    )


def test_the_element_shape_is_compared_at_each_call():
    def f(x):
        return TensorArray(element_shape=[2]).append(x).stack()

    for f, size in ((f, 3), (lambda x: TensorArray(element_shape=[2]).unstack(x[None]).stack(), 4)):
        staged = tracehost.function(f, input_signature=[TensorSpec([None])])
        for call in (f, staged, staged):
            with pytest.raises(ValueError) as caught:
                call(torch.ones(size))
            assert str(caught.value).split("\n")[0] == (
                f"an element of shape [{size}] is written to a TensorArray whose element_shape is [2]"
            )
            if call is staged:
                same(f, (X,), staged=staged, grad=False)


@pytest.mark.parametrize("shape", [3, "2", [2.0], [-1], [True], torch.tensor([2])])
def test_what_is_no_element_shape(shape):
    with pytest.raises(TypeError, match="element_shape is a list of sizes"):
        TensorArray(element_shape=shape)


def test_an_element_on_another_device():
    def f(x):
        return TensorArray(element_shape=[2]).append(torch.empty(2, device="meta")).stack()

    text = "an element on meta is written to a TensorArray whose zeros are on cpu. Give the array device='meta'."
    same_error(f, (X,), ValueError, text)
    out = TensorArray(element_shape=[2], device="meta")
    assert out.stack().device.type == "meta"
    assert out.append(torch.empty(2, device="meta")).stack().shape == (1, 2)


# ---- infer_shape


def test_elements_of_different_shapes():
    a, b = rows(1), rows(2)
    out = TensorArray(infer_shape=False).append(a).append(b)
    assert out.concat().tolist() == torch.cat([a, b]).tolist()
    assert out.read(1) is b and len(out) == 2
    with pytest.raises(RuntimeError, match="stack expects each tensor to be equal size"):
        out.stack()
    line = test_elements_of_different_shapes.__code__.co_firstlineno + 8
    staged = tracehost.function(lambda: TensorArray(infer_shape=False).append(a).append(b).concat())
    with pytest.raises(tracehost.StagingError) as caught:
        staged()
    assert str(caught.value).split("\n")[0] == (
        f"an element of shape [2, 2] is written at test_tensor_array_options.py:{line} to a TensorArray whose "
        "elements have shape [1, 2]: in a graph they have one shape, also with infer_shape=False. Pad them to "
        "one shape."
    )


# ---- concat, scatter, split


def test_concat():
    def f(x, count):
        out = TensorArray()
        for i in tracehost.range(count):
            out.append(x * i)
        return out.concat()

    same(f, (rows(2), n(3)), (rows(2), n(1)), (rows(2), n(5)))
    same(
        lambda x: TensorArray(size=2).write(0, x).write(1, -x).concat(), (rows(2),), (rows(2) * 2,)
    )
    text = "stack() of a TensorArray without elements: there is no shape to give the result. Ask size() first, or write an element before."
    same_error(f, (rows(2), n(0)), RuntimeError, text, good=(rows(2), n(2)))
    same_error(
        lambda x: TensorArray().append(x).concat(),
        (X.sum(),),
        ValueError,
        "concat() of a TensorArray of numbers: its elements have no dimension",
    )


@pytest.mark.parametrize("indices", [[2, 0, 1], [-1, 0, 1], (1, 1, 0), [0, 0, 0]], ids=str)
@pytest.mark.parametrize("kind", ["list", "tensor"])
def test_scatter(indices, kind):
    def f(xs, at):
        out = TensorArray("float32", size=3, element_shape=[2])
        return out.scatter(at if kind == "tensor" else indices, xs * 2).stack()

    same(f, (rows(3), n(indices)), (-rows(3), n([0, 1, 2])))


def test_scatter_of_any_number():
    def f(xs, at):
        return TensorArray("float32", size=4, element_shape=[2]).scatter(at, xs).stack()

    staged = tracehost.function(
        f, input_signature=[TensorSpec([None, 2]), TensorSpec([None], "int64")]
    )
    for at in ([3, 0], [1], [0, 1, 2, 3]):
        same(
            f, (rows(len(at)), n(at)), staged=staged, grad=False, traces=staged.tracing_count() or 1
        )


def test_scatter_lets_it_grow():
    def f(xs, at):
        return TensorArray().scatter(at, xs).stack()

    same(f, (rows(2), n([1, 0])), (rows(2), n([0, 1])))


def test_split():
    def f(xs):
        out = TensorArray().split(xs, [2, 2])
        return out.stack() * len(out), out.concat()

    same(f, (rows(4),), (-rows(4),))
    out = TensorArray().append(X[None]).split(rows(4), torch.tensor([1, 1, 1, 1]))
    assert out.stack().tolist() == rows(4)[:, None].tolist()
    uneven = TensorArray(infer_shape=False).split(rows(4), [1, 3])
    assert [len(x) for x in uneven] == [1, 3] and torch.equal(uneven.concat(), rows(4))
    assert TensorArray(element_shape=[1, 2]).split(rows(0), []).stack().shape == (0, 1, 2)
    same(
        lambda xs: TensorArray(element_shape=[1, 2]).split(xs, []).stack(),
        (rows(0),),
        (rows(0),),
    )


def test_split_replaces_all_elements():
    same(lambda xs: TensorArray().unstack(xs[:, None]).split(xs, [1, 1]).stack(), (rows(2),))
    same(lambda xs: TensorArray().unstack(xs[:, None]).split(xs[:1], [1]).stack(), (rows(2),))


@pytest.mark.parametrize(
    ("f", "error", "text"),
    [
        (
            lambda xs: TensorArray().split(xs, [1, 3]).stack(),
            ValueError,
            "an element of shape [3, 2] is written to a TensorArray, or to a list that a loop fills, whose elements have shape [1, 2]. Write elements of one shape: only a list that a loop over Python numbers fills may hold several",
        ),
        (
            lambda xs: TensorArray().split(xs, [1, 1]).stack(),
            ValueError,
            "split of 4 rows into pieces of [1, 1]",
        ),
        (
            lambda xs: TensorArray().split(xs, [5, -1]).stack(),
            ValueError,
            "split of 4 rows into pieces of [5, -1]",
        ),
        (
            lambda xs: TensorArray().split(xs.sum(), [1]).stack(),
            TypeError,
            "split takes a tensor of at least one dimension",
        ),
        (
            lambda xs: TensorArray().scatter([0], 1.0).stack(),
            TypeError,
            "scatter takes a tensor of at least one dimension",
        ),
        (
            lambda xs: TensorArray().scatter([0], xs).stack(),
            ValueError,
            "scatter of 4 rows to 1 indices",
        ),
        (
            lambda xs: TensorArray().scatter(torch.zeros((2, 2), dtype=torch.int64), xs).stack(),
            TypeError,
            "scatter takes a list of ints or a 1-dim integer tensor, got one of 2 dimensions",
        ),
        (
            lambda xs: TensorArray().scatter(xs[:, 0], xs).stack(),
            TypeError,
            "a TensorArray's index is an integer or an integer tensor of one element, not a float32 tensor of "
            "shape []",
        ),
        (
            lambda xs: TensorArray("int64").append(2.5).stack(),
            TypeError,
            "a float is written to a TensorArray of int64. Convert it, or give the array its dtype.",
        ),
        (
            lambda xs: TensorArray("int64").append(xs.sum().item()).stack(),
            TypeError,
            "a float is written to a TensorArray of int64. Convert it, or give the array its dtype.",
        ),
        (
            lambda xs: TensorArray("bool").append(2).stack(),
            TypeError,
            "an int is written to a TensorArray of bool. Convert it, or give the array its dtype.",
        ),
    ],
)
def test_wrong_use(f, error, text):
    same_error(f, (rows(4),), error, text)


def test_split_by_a_tensor_in_a_trace():
    staged = tracehost.function(lambda xs, by: TensorArray().split(xs, by).stack())
    line = test_split_by_a_tensor_in_a_trace.__code__.co_firstlineno + 1
    with pytest.raises(TypeError) as caught:
        staged(rows(2), n([1, 1]))
    assert str(caught.value).split("\n")[0] == (
        f"split at test_tensor_array_options.py:{line} takes lengths as a list of ints: a graph has a fixed number of "
        "pieces, known at the trace"
    )


def test_a_split_of_another_count_than_the_size():
    with pytest.raises(RuntimeError, match=r"^split\(\) into 2 pieces of a TensorArray of size 3$"):
        TensorArray(size=3).split(rows(4), [2, 2])
    with pytest.raises(RuntimeError, match="of 2 rows into a TensorArray of size 3"):
        tracehost.function(lambda xs: TensorArray(size=3).split(xs, [2, 2]).stack())(rows(4))


def test_a_message_names_scatter_at_its_line():
    def f(xs, at):
        try:
            return TensorArray("int64", size=2).scatter(at, xs).stack()
        except ValueError:
            return xs

    where = f"test_tensor_array_options.py:{f.__code__.co_firstlineno + 2}"
    with pytest.raises(tracehost.StagingError) as caught:
        tracehost.function(f)(rows(2), n([0, 1]))
    assert str(caught.value).startswith(f"the body of the scatter at {where} raises ValueError in")
